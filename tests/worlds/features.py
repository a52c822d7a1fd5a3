"""What a world can have, which features exclude each other, and which world covers most.

Rule: two features are a *pair* if one configuration can have both. A run of worlds is drawn so that
its worlds have as many pairs as possible that no earlier one had. The first value of a feature is
the plain one, to which a failing world is reduced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

__all__ = [
    "FEATURES",
    "LEARNERS",
    "Choice",
    "Learner",
    "choices",
    "clash",
    "named",
    "pairs_of",
    "plain",
    "possible",
    "read",
]

Choice = dict[str, str]  # feature to its value
Pair = tuple[tuple[str, str], tuple[str, str]]

DRAWS = 40  # worlds, of which the one with the most new pairs is taken
PLAIN = 0.15  # of the features of a draw, those that are plain
RARE = {"children": 0.2, "river": 0.5}  # weights of values whose worlds take long


@dataclass(frozen=True)
class Learner:
    """A model, by the lines of `[model]`, and what it can do."""

    lines: str
    texts: bool = False  # whether it reads them
    mixes: bool = False
    corrects: bool = False
    explains: bool = True


LEARNERS = {
    "GaussianNB": Learner('type = "GaussianNB"', mixes=True, corrects=True),
    "auto": Learner('type = "auto"', texts=True, mixes=True, corrects=True),
    "fading": Learner('type = "GaussianNB"\nhalf_life = 40.0', corrects=True),
    "MixedNB": Learner('type = "MixedNB"', texts=True, mixes=True, corrects=True),
    "BernoulliNB": Learner('type = "BernoulliNB"', texts=True, mixes=True, corrects=True),
    "CategoricalNB": Learner('type = "CategoricalNB"', mixes=True, corrects=True),
    "learned bins": Learner('type = "CategoricalNB"\nbins = {strategy = "mdl"}'),
    "MultinomialNB": Learner('type = "MultinomialNB"', texts=True, mixes=True, corrects=True),
    "ComplementNB": Learner('type = "ComplementNB"', texts=True, mixes=True, corrects=True),
    "PoissonNB": Learner('type = "PoissonNB"', mixes=True, corrects=True),
    "GaussianBayes": Learner('type = "GaussianBayes"', mixes=True, corrects=True),
    "CategoricalBayes": Learner('type = "CategoricalBayes"', mixes=True, corrects=True),
    "MixedBayes": Learner('type = "MixedBayes"', mixes=True, corrects=True),
    "KNNClassifier": Learner('type = "KNNClassifier"\nwindow = 60', corrects=True, explains=False),
    "LogisticRegression": Learner('type = "LogisticRegression"', texts=True),
    "spam": Learner('type = "spam"', texts=True, corrects=True),
    "Mixture": Learner(
        'type = "Mixture"\nexperts = ["MixedNB", {type = "KNNClassifier", window = 50}]\n'
        "stack = true",
        texts=True,
        mixes=True,
        corrects=True,
    ),
    "Calibrated": Learner(
        'type = "Calibrated"\nlearner = "MixedNB"', texts=True, mixes=True, corrects=True
    ),
    "keys": Learner('per = "tenant"'),
    "keys on disk": Learner(
        'per = "tenant"\nkeys_on_disk = true\nmax_keys = 1000\nmax_state_bytes = 12000'
    ),
    "river": Learner(
        'type = "river:tree.HoeffdingTreeClassifier"\ngrace_period = 40', explains=False
    ),
    "pickled river": Learner(
        'type = "river:tree.HoeffdingTreeClassifier"\ntrust_pickle = true', explains=False
    ),
}

FEATURES: dict[str, tuple[str, ...]] = {
    "learner": tuple(LEARNERS),
    "fields": ("declared", "inferred"),
    "format": (
        "json", "header", "text", "mail", "field of mail", "arrow", "avro", "json_schema",
        "protobuf",
    ),
    "labels": ("late", "early", "inside"),
    "join": ("first", "corrections", "reporters", "silence"),
    "bounds": ("wide", "tight"),
    "bad": ("few", "many", "missing"),
    "shards": ("1", "2", "3"),
    "processes": ("one", "one each", "children"),
    "mix": ("no", "yes"),
    "rivals": ("none", "challengers", "promotion"),
    "drift": ("none", "alert", "forget", "reset", "challenger"),
    "decision": ("none", "losses", "budget"),
    "output": ("plain", "explain", "cloudevents"),
    "commits": ("large", "small", "bytes"),
    "guarantee": ("exactly_once", "at_least_once"),
    "snapshots": ("seldom", "often", "signed", "copied"),
    "feed": ("in parts", "live", "file"),
    "command": ("none", "relearn", "reshard"),
    "fault": ("kill", "failpoint", "power"),
    "http": ("off", "on"),
    "log": ("sqlite", "kafka"),
}  # fmt: skip
HELPS = (  # what others need
    ("rivals", "challengers"),
    ("guarantee", "at_least_once"),
    ("shards", "2"),
    ("learner", "auto"),
)
SCHEMAS = ("avro", "json_schema", "protobuf")
RAW = ("text", "mail")


def clash(c: Mapping[str, str]) -> str:
    """Why no service has these features; "" if one may have them."""
    learner = LEARNERS[c["learner"]]
    for excluded, why in (*_of_model(c, learner), *_of_records(c, learner), *_of_service(c)):
        if excluded:
            return why
    return ""


def _of_model(c: Mapping[str, str], learner: Learner) -> Iterator[tuple[bool, str]]:
    keyed = c["learner"] == "keys on disk"
    restarts = c["drift"] in ("forget", "reset")
    yield c["join"] in ("corrections", "silence") and not learner.corrects, "it cannot unlearn"
    yield c["output"] == "explain" and not learner.explains, "it cannot explain"
    yield c["mix"] == "yes" and not learner.mixes, "it does not merge"
    yield c["mix"] == "yes" and restarts, "the other shards give back what is forgotten"
    yield c["mix"] == "yes" and c["decision"] == "budget", "the evidence is of one shard"
    yield keyed and c["snapshots"] in ("signed", "copied"), "rows are neither signed nor copied"
    yield keyed and restarts, "the keys would stay"
    yield c["drift"] == "challenger" and c["rivals"] == "none", "there is nobody to choose"
    yield c["decision"] == "budget" and c["rivals"] != "none", "the evidence is of one model"
    budget = c["decision"] == "budget"
    yield budget and c["drift"] not in ("none", "alert"), "the evidence is of one model"
    silence = c["join"] == "silence"
    yield silence and (budget or c["rivals"] != "none"), "silence depends on what is published"


def _of_records(c: Mapping[str, str], learner: Learner) -> Iterator[tuple[bool, str]]:
    kind, inside = c["format"], c["labels"] == "inside"
    texts = kind in RAW or kind == "field of mail"
    yield texts and not learner.texts, "there are texts only"
    yield kind in RAW and inside, "there is no room for a label"
    yield inside and c["join"] != "first", "there is one label"
    inferred = c["fields"] == "inferred"
    yield inferred and (texts or kind == "arrow"), "they are given or declared"
    yield inferred and c["shards"] != "1", "each shard would infer its own"
    yield inferred and c["feed"] == "live", "the first records decide"
    file = c["feed"] == "file"
    yield file and (kind != "json" or c["join"] in ("corrections", "reporters")), "as in a file"
    yield file and c["labels"] != "late", "a file has a delay"
    yield file and inferred, "all the same"


def _of_service(c: Mapping[str, str]) -> Iterator[tuple[bool, str]]:
    one = c["shards"] == "1"
    yield one and (c["mix"] == "yes" or c["processes"] != "one"), "there is one shard"
    # A registry in memory, and the disk that is watched, are of one process and its forks.
    children = c["processes"] == "children"
    yield children and c["format"] in SCHEMAS, "a registry in memory"
    yield children and c["fault"] == "power", "their fsyncs are not seen"
    command = c["command"]
    if command != "none":
        yield c["mix"] == "yes" or c["join"] == "silence", "it depends on what was published"
        yield c["rivals"] != "none", "challengers begin again"
        yield c["feed"] == "live", "it needs a moment that the twin can know"
    # A move learns in the order of times what two shards have consumed beside each other.
    yield command == "reshard" and c["fields"] == "inferred", "several shards have declared fields"


def plain() -> Choice:
    """The first value of each feature."""
    return {feature: values[0] for feature, values in FEATURES.items()}


def pairs_of(choice: Mapping[str, str]) -> set[Pair]:
    """The pairs of features that it has."""
    return set(combinations(choice.items(), 2))


def named(choice: Mapping[str, str]) -> str:
    """What is not plain, as `read` reads it."""
    return ", ".join(f"{k}={v}" for k, v in choice.items() if v != FEATURES[k][0]) or "plain"


def read(text: str) -> Choice:
    """The features that `named` shows.

    Raises
    ------
    ValueError
        There is no such feature or value, or they exclude each other.
    """
    choice = plain()
    for part in filter(None, (each.strip() for each in text.split(","))):
        feature, _, value = part.partition("=")
        if part != "plain" and value not in FEATURES.get(feature, ()):
            raise ValueError(f"expected FEATURE=VALUE of {FEATURES}, got {part!r}")
        choice |= {} if part == "plain" else {feature: value}
    if why := clash(choice):
        raise ValueError(f"{text}: {why}")
    return choice


def drawn(random: Random, fixed: Mapping[str, Sequence[str]]) -> Choice:
    """Features that one service can have, most values of those that fit as likely as another."""
    values = {**FEATURES, **fixed}
    choice = {feature: every[0] for feature, every in values.items()}
    assert not clash(choice), clash(choice)
    for feature in random.sample(sorted(values), len(values)):
        if random.random() < PLAIN:
            continue
        fit = [v for v in values[feature] if not clash({**choice, feature: v})]
        (choice[feature],) = random.choices(fit, [RARE.get(v, 1.0) for v in fit])
    return choice


def choices(seed: int, fixed: Mapping[str, Sequence[str]]) -> Iterator[Choice]:
    """Worlds without end, each with as many new pairs as one of some draws has.

    Parameters
    ----------
    fixed
        The values of some features, if not all.
    """
    random, covered = Random(f"worlds {seed}"), set[Pair]()
    while True:
        found = max(
            (drawn(random, fixed) for _ in range(DRAWS)), key=lambda c: len(pairs_of(c) - covered)
        )
        covered |= pairs_of(found)
        yield found


def possible(fixed: Mapping[str, Sequence[str]]) -> set[Pair]:
    """Every pair that a service can have."""
    values = {**FEATURES, **fixed}
    base = {feature: every[0] for feature, every in values.items()}
    single = [(feature, value) for feature, every in values.items() for value in every]
    found = set()
    for pair in combinations(single, 2):
        given = dict(pair)
        helps = [h for h in HELPS if h[0] not in given and h[1] in values[h[0]]]
        some = (dict(these) for n in range(len(helps) + 1) for these in combinations(helps, n))
        if len(given) == 2 and any(not clash({**base, **these, **given}) for these in some):
            found.add(pair)
    return found

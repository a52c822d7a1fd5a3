"""SpamScorer against its twin, its bounds, and what it says about a message."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from stream import SchemaError, SpamScorer, State, StateError
from stream.data.block import PREDICT, Block
from stream.errors import InvalidRecordError, NotLearnedError
from stream.linear import evidence
from tests.oracles.spam import SlowSpamScorer

WORDS = ["free", "MONEY", "call", "now", "lunch", "noon", "v1agra", "£100", "ok", "привет", "你好"]
CLASSES = ["ham", "spam", "phishing", "news"]


def messages(n: int, classes: int, seed: int = 1) -> list[tuple[dict, str, float]]:
    """Records of two texts and other fields, whose classes prefer other words."""
    rng, out = Random(seed), []
    for i in range(n):
        c = rng.randrange(classes if i > n // 2 else min(classes, 2))
        often = [4 if k % classes == c else 1 for k in range(len(WORDS))]
        found = rng.choices(WORDS, often, k=4)
        x = {
            "text": " ".join(found),
            "size": float(rng.randrange(1, 300)),
            "new": rng.random() < 0.3,
        }
        if rng.random() < 0.5:
            x["subject"] = rng.choice(WORDS)
            x["headers"] = " ".join(found[:2])  # a view of its own
        out.append((x, CLASSES[c], rng.choice([1.0, 1.0, 2.0, 0.5])))
    return out


def learned(records, **parameters) -> SpamScorer:
    """A scorer that has learned these."""
    model = SpamScorer(**parameters)
    for x, y, w in records:
        model.learn_one(x, y, w)
    return model


def even_of(model: SpamScorer, *xs: dict) -> list[list[float]]:
    """The posteriors with equal class shares."""
    made = model.run(Block.of(model.rows(list(xs)), PREDICT))
    assert made.even is not None
    return made.even.tolist()


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_predictions_are_those_of_the_twin(classes) -> None:
    """With weights, fading, late classes and fields that come and go."""
    model, slow = SpamScorer(half_life=100), SlowSpamScorer(half_life=100)

    for x, y, w in messages(60, classes):
        expected = slow.predict_proba_one(x)
        assert model.predict_proba_one(x) == pytest.approx(expected, rel=1e-4, abs=1e-6)
        [even] = even_of(model, x)
        assert even == pytest.approx(list(slow.predict_proba_one(x, even=True).values()), rel=1e-4)
        model.learn_one(x, y, w)
        slow.learn_one(x, y, w)
    assert list(model.view_weights.values()) == pytest.approx(slow.slope, rel=1e-5)


def verdicts(model: SpamScorer, asked: list[tuple[dict, str, float]]) -> np.ndarray:
    """The log-odds of spam of each message."""
    p = np.array([model.predict_proba_one(x)["spam"] for x, _, _ in asked])
    return np.log(p / (1.0 - p))


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("classes", [2, 3])
def test_label_and_correction_are_never_wrong(classes, times) -> None:
    """At once: other messages are as if there had never been a wrong label."""
    before, x = messages(200, classes), {"text": "free call noon", "subject": "MONEY", "size": 9.0}
    wrong, right = learned([*before, (x, "ham", 2.0)]), learned([*before, (x, "spam", 2.0)])

    for old, new in pairwise(["ham", "spam"] * times):
        wrong.correct_rows(wrong.rows([x]), (old, 2.0), (new, 2.0), 0)

    asked = messages(100, 2, seed=3)
    assert np.abs(verdicts(wrong, asked) - verdicts(right, asked)).max() < 0.1


@pytest.mark.parametrize("late", [5, 60])
def test_late_correction_is_nearly_as_if_it_had_never_been_wrong(late) -> None:
    """The messages between have learned from a wrong score, so at most 2 verdicts of 100 differ."""
    before, x = messages(200, 2), {"text": "free call noon", "subject": "MONEY", "size": 9.0}
    after, asked = messages(late, 2, seed=2), messages(100, 2, seed=3)
    model, never = (learned([*before, (x, y, 1.0), *after]) for y in ("ham", "spam"))

    model.correct_rows(model.rows([x]), ("ham", 1.0), ("spam", 1.0), late)

    found, expected = verdicts(model, asked), verdicts(never, asked)
    assert ((found > 0) != (expected > 0)).sum() <= 2
    assert model.fast_share == pytest.approx(never.fast_share, rel=0.3)


def test_record_that_is_no_longer_noted_leaves_the_counts() -> None:
    """After 4,096 more records: the counts are those of the new label only."""
    x = {"text": "free call noon"}
    model = learned(
        [(x, "ham", 1.0), *[({"text": "a"}, CLASSES[i % 2], 1.0) for i in range(evidence.NOTES)]]
    )

    model.correct_rows(model.rows([x]), ("ham", 1.0), ("spam", 1.0), evidence.NOTES)

    ids = np.array([found.id for found in model.features_of(x)[:3]])
    _, counts = model.evidence_columns(ids)
    assert counts[:, model.classes.index("ham")] == pytest.approx(0.0, abs=1e-3)
    assert (counts[:, model.classes.index("spam")] > 0.0).all()


def test_correction_is_found_after_a_restart() -> None:
    """Notes are part of the state, in a ring that is full or not."""
    x = {"text": "free call noon"}
    model = learned([*messages(40, 2), (x, "ham", 1.0)])
    again = SpamScorer().load_state(State.from_bytes(model.to_state().to_bytes()))

    for each in (model, again):
        each.correct_rows(each.rows([x]), ("ham", 1.0), ("spam", 1.0), 0)

    assert model.fingerprint() == again.fingerprint()


def test_label_against_a_sure_prediction_does_little() -> None:
    """Ten of them in a row change few verdicts about others."""
    given = subjects(1600, range(500, 560), range(560, 620), seed=1)
    model = SpamScorer()
    model.learn_many(*zip(*given[:1000], strict=True))
    before = [model.predict_one(x) for x, _ in given[1100:]]

    wrong = [x for x, y in given[1000:1100] if y == "ham"][:10]
    model.learn_many(wrong, ["spam"] * 10)

    after = [model.predict_one(x) for x, _ in given[1100:]]
    assert sum(a != b for a, b in zip(before, after, strict=True)) <= 10


@pytest.mark.parametrize("label", ["ham", "spam"])
def test_record_that_comes_again_and_again_says_little_of_others(label: str) -> None:
    """Else all other words of its class are rare: the evidence of all others moved by 2 to 4."""
    given = subjects(1500, range(500, 560), range(560, 620), seed=1)
    model = SpamScorer()
    model.learn_many(*zip(*given[:1000], strict=True))
    others = [x for x, _ in given[1100:]]
    before = np.log(even_of(model, *others))
    again = next(x for x, y in given[1000:1100] if y == label == model.predict_one(x))

    model.learn_many([again] * 600, [label] * 600)

    moved = np.log(even_of(model, *others)) - before
    assert abs(np.mean(moved[:, 1] - moved[:, 0])) < 1.5


def test_what_has_no_known_word_has_no_evidence() -> None:
    """Whatever the labels' shares: only the prior is left."""
    model = learned(messages(100, 2))
    model.learn_many([{"text": "free MONEY"}] * 100, ["spam"] * 100)
    x = {"text": "ⱥⱦⱬ"}

    [even] = even_of(model, x)

    assert even == [0.5, 0.5]
    assert model.predict_proba_one(x)["spam"] > 0.6


@pytest.mark.parametrize("classes", [2, 4])
def test_evidence_is_the_explanation_without_the_prior(classes) -> None:
    """The two numbers of a prediction differ by one named term."""
    model = learned(messages(80, classes))
    asked = [x for x, _, _ in messages(100, classes, seed=3)][80:]
    made = model.run(Block.of(model.rows(asked), PREDICT))

    for x, proba, odds in zip(asked, made.proba, made.evidence, strict=True):
        a, b = np.argsort(-proba)[:2]
        why = model.explain_one(x, made.classes[a], made.classes[b])
        says = sum(share for name, share in why.contributions.items() if name != "(prior)")
        even = np.exp(odds - np.log(classes - 1))  # odds, and so a probability
        even = even / (1 + even)
        assert np.log(even[a] / even[b]) == pytest.approx(says, abs=1e-4)
        assert even.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_evidence_of_nothing_known_is_zero(classes) -> None:
    """Exactly, for any number of classes and shares."""
    model = learned(messages(90, classes))

    made = model.run(Block.of(model.rows([{"text": "ⱥⱦⱬ"}, {}]), PREDICT))

    assert made.evidence.tolist() == [[0.0] * classes] * 2


def test_run_of_one_class_moves_the_shares_and_not_the_evidence() -> None:
    """Fifty right labels of spam are no news about ham."""
    given = subjects(1700, range(500, 560), range(560, 620), seed=6)
    model = SpamScorer()
    model.learn_many(*zip(*given[:1000], strict=True))
    asked = [x for x, _ in given[1500:]]
    before = np.array(even_of(model, *asked))[:, 1]

    spam = [x for x, y in given[1000:1500] if y == "spam"][:50]
    model.learn_many(spam, ["spam"] * 50)

    after = np.array(even_of(model, *asked))[:, 1]
    assert ((before > 0.5) != (after > 0.5)).sum() <= 4


def test_correction_to_a_new_class_and_of_a_label_that_was_never_learned() -> None:
    """The first makes room for the class; the second changes nothing."""
    x = {"text": "free call"}
    model = learned([*messages(40, 2), (x, "ham", 1.0)])

    model.correct_rows(model.rows([x]), ("ham", 1.0), ("news", 1.0), 0)
    mark = model.fingerprint()

    assert model.predict_proba_one(x)["news"] > 0.0
    with pytest.raises(NotLearnedError, match="'bulk' was not learned"):
        model.correct_rows(model.rows([x]), ("bulk", 1.0), ("spam", 1.0), 0)
    with pytest.raises(InvalidRecordError):
        model.correct_rows(model.rows([x]), ("ham", 1.0), (3, 1.0), 0)
    assert model.fingerprint() == mark


def test_corrections_are_no_news_about_the_stream() -> None:
    """A user who corrects a week of verdicts must not make the filter trust its fast memory."""
    given = messages(200, 2)
    model = learned(given)
    share = model.fast_share

    for x, y, w in given[-40:]:
        other = "ham" if y == "spam" else "spam"
        model.correct_rows(model.rows([x]), (y, w), (other, w), 40)

    assert model.fast_share == share


def test_corrected_labels_do_less_harm_than_wrong_ones() -> None:
    """A third of the labels is wrong first, and corrected 20 messages later."""
    given, rng = messages(900, 2), Random(5)
    flipped = [rng.random() < 1 / 3 for _ in given]
    right = {"wrong": 0, "corrected": 0, "never wrong": 0}
    for name in right:
        model, waiting = SpamScorer(), []
        for n, ((x, y, w), flip) in enumerate(zip(given, flipped, strict=True)):
            right[name] += n >= 600 and model.predict_one(x) == y
            other = "ham" if y == "spam" else "spam"
            label = other if flip and name != "never wrong" else y
            model.learn_one(x, label, w)
            if label != y and name == "corrected":
                waiting.append((n, model.rows([x]), (label, w), (y, w)))
            while waiting and waiting[0][0] <= n - 20:
                at, rows, old, new = waiting.pop(0)
                model.correct_rows(rows, old, new, n - at)

    assert right["corrected"] - right["wrong"] > (right["never wrong"] - right["wrong"]) / 2


def test_correction_of_the_only_record_leaves_that_of_the_new_label() -> None:
    """Nothing of the old label is left in features that were in no other record."""
    x = {"text": "free call noon"}
    model, other = learned([]), learned([])
    model.learn_one(x, "ham")
    model.correct_rows(model.rows([x]), ("ham", 1.0), ("spam", 1.0), 0)
    model.learn_one({"text": "lunch"}, "ham")
    other.learn_one({"text": "lunch"}, "ham")
    other.learn_one(x, "spam")

    for fresh in (model, other):
        assert fresh.predict_proba_one(x)["spam"] > 0.75


@pytest.mark.parametrize("classes", [2, 4])
def test_what_is_learned_after_a_change_is_that_of_the_twin(classes) -> None:
    """With words that mean another class from then on; the fast memory counts more."""
    model, slow, rng = SpamScorer(half_life=100), SlowSpamScorer(half_life=100), Random(2)

    for i in range(140):
        word, w = rng.randrange(classes), rng.choice([1.0, 0.5, 2.0])
        x = {"text": f"{CLASSES[word]} {rng.choice(WORDS)}"}
        expected = slow.predict_proba_one(x)
        assert model.predict_proba_one(x) == pytest.approx(expected, rel=1e-3, abs=1e-6)
        label = CLASSES[(word + (i >= 90)) % classes]
        model.learn_one(x, label, w)
        slow.learn_one(x, label, w)
    assert model.fast_share > 0.02


def subjects(n: int, spam: range, ham: range, seed: int) -> list[tuple[dict, str]]:
    """Messages of common words and of a few words of their class, each of which is rare."""
    rng, out = Random(seed), []
    for i in range(n):
        own = spam if i % 3 == 0 else ham
        found = [f"w{rng.randrange(500)}" for _ in range(12)]
        found += [f"w{rng.choice(own)}" for _ in range(4)]
        rng.shuffle(found)
        out.append(({"text": " ".join(found)}, CLASSES[own is spam]))
    return out


def crowd(n: int, start: int = 0) -> list[tuple[dict, str]]:
    """Messages without a common word."""
    rng = Random(start)
    return [
        ({"text": " ".join(f"w{rng.getrandbits(40):x}" for _ in range(20))}, CLASSES[i % 2])
        for i in range(n)
    ]


def rights(model: SpamScorer, records: list[tuple[dict, str]]) -> list[bool]:
    """Whether each record is classified rightly before it is learned."""
    out = []
    for x, y in records:
        out.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    return out


def test_after_a_change_it_is_as_good_as_one_that_started_there() -> None:
    """Although words of the old spam are words of the new ham."""
    old, new = range(500, 560), range(560, 620)
    before = subjects(1500, old, new, seed=1)
    after = subjects(500, new, old, seed=2)
    model = SpamScorer()
    model.learn_many(*zip(*before, strict=True))
    assert model.fast_share < 0.05

    here, fresh = rights(model, after), rights(SpamScorer(), after)

    assert np.mean(here[200:400]) >= np.mean(fresh[200:400]) - 0.02
    assert np.mean(here[200:400]) > 0.9


def test_steady_streams_trust_the_slow_memory() -> None:
    """Neither an easy one nor one that cannot be learned."""
    rng = Random(3)
    noise = [(x, rng.choice(CLASSES[:2])) for x, _ in crowd(1500, start=5)]
    easy = subjects(1500, range(500, 560), range(560, 620), seed=4)

    for records in (noise, easy):
        model = SpamScorer()
        model.learn_many(*zip(*records, strict=True))
        assert model.fast_share < 0.1


@pytest.mark.parametrize("classes", [2, 4])
def test_explanation_sums_to_the_log_odds(classes) -> None:
    """Before any calibration, for each pair of classes."""
    model = learned(messages(80, classes))
    x = {"text": "call now for FREE v1agra", "subject": "lunch", "size": 12.0, "new": True}
    p = model.predict_proba_one(x)

    for label in model.classes:
        for against in model.classes:
            if label != against:
                found = model.explain_one(x, label, against)
                assert found.log_odds == pytest.approx(np.log(p[label] / p[against]), abs=1e-9)
                assert sum(found.contributions.values()) == pytest.approx(found.log_odds)


def test_explanation_names_the_words_of_the_message() -> None:
    """With their field; what is a disguise is called as it is written."""
    model = learned(messages(200, 2))

    found = model.explain_one({"text": "Free lunch", "subject": "v1agra", "size": 3.0}, "spam")

    assert {"text: free", "text: lunch", "text: free lunch", "subject: v1agra", "size"} < set(
        found.contributions
    )
    assert all(
        ": " in name or name in ("size", "(prior)", "(bias)") for name in found.contributions
    )


@pytest.mark.parametrize("classes", [2, 4])
def test_spans_are_the_evidence_of_each_part_of_the_texts(classes) -> None:
    """They do not overlap, and with what has no place they add up to the score."""
    model = learned(messages(200, classes))
    x = {"text": "Free  lunch, FREE v1agra! v i a g r a", "subject": "n\u200bow", "size": 3.0}

    found = model.explain_one(x, "spam", "ham")
    texts = {(s.field, x[s.field][s.begin : s.end]) for s in found.spans}
    placeless = [
        share
        for name, share in found.contributions.items()
        if ": " not in name or name.endswith(("(space)", "(invisible characters)"))
    ]

    assert sum(s.log_odds for s in found.spans) + sum(placeless) == pytest.approx(found.log_odds)
    assert {
        ("text", "Free"),
        ("text", "FREE"),
        ("text", "v1agra"),
        ("subject", "n\u200bow"),
    } < texts
    ends = [(s.field, s.begin, s.end) for s in found.spans]
    assert ends == sorted(ends)
    assert all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(ends))
    assert found.largest(1).spans == found.spans


def test_repeated_word_has_equal_shares_in_each_place() -> None:
    """Else a reader would take the second one for harmless."""
    model = learned(messages(200, 2))

    found = model.explain_one({"text": "lunch lunch lunch"}, "ham", "spam")
    alone = {name: share for name, share in found.contributions.items() if name == "text: lunch"}

    assert [(s.begin, s.end) for s in found.spans] == [(0, 5), (6, 11), (12, 17)]
    assert min(s.log_odds for s in found.spans) > 0.0
    assert sum(s.log_odds for s in found.spans) >= alone["text: lunch"]


def test_evidence_of_features_is_that_of_a_record_of_them() -> None:
    """A view's evidence is the sum of its features', divided by the root of their number."""
    model = learned(messages(200, 2))
    x = {"text": "call now", "size": 12.0}
    named = model.features_of(x)
    evidence = model.evidence_of([found.id for found in named], "spam", "ham")

    sizes = [sum(found.view == view for found in named) for view in range(4)]
    total = sum(e.log_odds / sizes[f.view] ** 0.5 for f, e in zip(named, evidence, strict=True))
    why = model.explain_one(x, "spam", "ham")
    shares = why.contributions["(prior)"] + why.contributions["(bias)"]
    assert total == pytest.approx(why.log_odds - shares)


def test_features_have_names_and_records_of_each_class() -> None:
    """Each name once in its field and view; unknown ids are no evidence."""
    model = learned([({"text": "FREE v1agra"}, "spam", 2.0), ({"text": "lunch"}, "ham", 1.0)])
    named = model.features_of({"text": "FREE v1agra to you"})
    seen = dict(
        zip([n.written for n in named], model.evidence_of(n.id for n in named), strict=False)
    )

    assert len({(n.field, n.view, n.written) for n in named}) == len(named)
    assert {"free", "FREE", "v1agra", "v#agra", "viagra", "free v#agra", "‹ree ›"} < set(seen)
    assert model.evidence_of([named[1].id], "spam", "ham")[0].records["spam"] == pytest.approx(
        2.0, rel=1e-3
    )
    assert model.evidence_of([12345]) == [(0.0, {"spam": 0.0, "ham": 0.0})]


def test_word_of_one_class_only_is_no_evidence_before_the_other_class() -> None:
    """An unknown word says nothing, however few records the other class has."""
    model = learned([({"text": f"word{i}"}, "ham", 1.0) for i in range(50)])
    model.learn_one({"text": "free money"}, "spam")

    found = model.explain_one({"text": "zzz"}, "spam", "ham")

    assert set(found.contributions) == {"(prior)"}


def test_merge_of_halves_knows_both() -> None:
    """Also with the classes in another order, and with a class that one of them lacks."""
    records = messages(300, 2)
    one, other = learned(records[:150]), learned(records[:0:-1][:150])
    third = learned(messages(60, 4, seed=3))
    before = one.predict_proba_one(records[-1][0])

    one.merge(other)
    assert before != one.predict_proba_one(records[-1][0])
    rights = [one.predict_one(x) == y for x, y, _ in records]
    one.merge(third)

    assert np.mean(rights) > 0.9
    assert set(one.classes) == set(CLASSES)
    assert sum(one.predict_proba_one(records[0][0]).values()) == pytest.approx(1.0)
    assert one._tables.totals[0].sum() > 300


def test_merge_with_an_empty_one_changes_no_prediction() -> None:
    """In both directions."""
    records = messages(100, 2)
    x = records[-1][0]
    for model in (
        learned(records).merge(SpamScorer()),
        SpamScorer().merge(learned(records)),
    ):
        assert model.predict_proba_one(x) == pytest.approx(learned(records).predict_proba_one(x))


@pytest.mark.parametrize(
    "name",
    ["key", "cell", "totals", "bias", "slope", "unit", "records", "losses", "surprise", "note_key"],
)
def test_damaged_state_is_refused(name) -> None:
    """Numbers below 0 or of another shape."""
    state = learned(messages(20, 2)).to_state()
    for damaged in (state.arrays[name][:0], state.arrays[name] * 0 - 1.0):
        array = damaged.astype(state.arrays[name].dtype)
        if name in ("bias", "note_key") and array.size:
            continue  # it may be negative
        with pytest.raises(StateError):
            SpamScorer().load_state(State(state.header, {**state.arrays, name: array}))


@pytest.mark.parametrize("half_life", [99.0, 2e6, None, "1"])
def test_half_life_is_bounded(half_life) -> None:
    """Counts of 32 bits are exact only for so many records."""
    with pytest.raises(SchemaError):
        SpamScorer(half_life=half_life)


@pytest.mark.parametrize("classes", [2, 3])
def test_calls_with_one_record_are_blocks_of_one_record(classes: int) -> None:
    """To the bit, whatever the record: texts alone take a shorter way."""
    rng = np.random.default_rng(classes)
    words = ["free", "Ünïcode", "v1agra", "世界", "\ud800", "it's", "", "£1"]
    records: list[dict[str, object]] = [{}, {"text": None}, {"n": 1.5}, {"text": "long " * 7000}]
    for _ in range(60):
        names = rng.permutation(["subject", "body", "n"])[: 1 + int(rng.integers(3))]
        texts = (" ".join(rng.choice(words, 5)) for _ in names)
        x: dict[str, object] = dict(zip(names.tolist(), texts, strict=True))
        records.append({**x, "n": 2.0} if "n" in x and rng.random() < 0.5 else x)
    short, blocks = SpamScorer(), SpamScorer()
    for i, x in enumerate(records * 2):
        y, w = f"c{int(rng.integers(classes))}", 1.0 if i % 5 else 2.0

        assert (
            short.predict_proba_one(x) == blocks.run(Block.of(blocks.rows([x]), PREDICT)).dicts()[0]
        )
        short.learn_one(x, y, w)
        blocks.learn_many([x], [y], w)
        assert short.fingerprint() == blocks.fingerprint()
    assert short.overflows == blocks.overflows
    assert short.overflows["tokens"] == 2
    with pytest.raises(SchemaError):
        short.learn_one({"text": "x"}, "c0", True)  # a truth value is no weight

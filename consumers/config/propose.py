"""From inferred fields to a configuration: the model, why, and the commented TOML; whether a model
can learn the labels of a sample; and the configuration of a spam filter. Pure.

Rule: the model takes every declared field. A field whose values never come again (an id, a date) is
not declared. A value that does not fit its field counts as missing, because kinds are inferred from
a sample, and one rare value should not cost the other fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple

from consumers.base.counts import counted, first_ones
from consumers.base.errors import ConfigError
from consumers.base.fields import name_of
from consumers.config.auto import OF_KEYS, PER
from consumers.config.sample import FEW_RECORDS, InferredField, share_text
from stream.decision.rule import Budget

__all__ = [
    "FORMATS",
    "MIN_LEARNED",
    "ONE_CLASS",
    "ModelChoice",
    "Source",
    "Waiting",
    "check_labels",
    "choose",
    "doubtful",
    "hint",
    "other_kinds",
    "service_name",
    "spam_filter",
    "toml",
    "with_key",
]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model, why it was chosen, and the scores that show it, as lines; and its parameters."""

    model: str
    why: str
    scores: Sequence[str] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Waiting(NamedTuple):
    """[labels] horizon and max_pending, and why."""

    why: str
    horizon: str
    max_pending: int


@dataclass(frozen=True, slots=True)
class Source:
    """Where the records are, for the [input] section."""

    name: str
    transport: str
    observations: str
    labels: str | None
    label: str | None
    sample: str
    id: str = "id"
    registry: str | None = None
    format: str = "json"
    decimal: str | None = None
    waiting: Waiting | None = None
    changes: Sequence[str] = ()


def choose(
    fields: Sequence[InferredField], *, mail: bool = False, per: str | None = None
) -> ModelChoice:
    """The model for these fields, which may be those of mails. `per`: see `with_key`.

    Raises
    ------
    ConfigError
        No field can be used.

    Examples
    --------
    >>> choose([InferredField("hops", "numeric", "…")]).why
    '1 field of numbers or truth values: several learners, each weighed by how well it predicts'
    """
    if mail:
        if per is not None:
            raise ConfigError("--per: mails have no field of a key; remove it")
        return ModelChoice("spam", "mail: words, pairs and byte 4-grams of each field")
    kinds = [f.kind for f in fields if f.kind is not None and f.name != per]
    texts, categories = kinds.count("text"), kinds.count("categorical")
    numbers = len(kinds) - texts - categories
    if not kinds:
        left_out = "; ".join(f"{f.name}: {f.why}" for f in fields[:3] if f.kind is None)
        raise ConfigError(
            f"no field can be learned from{f' ({left_out})' if left_out else ''}; send numbers, "
            "truth values, categories or texts in addition to the id and the label"
        )
    counted = ((numbers, "numbers or truth values"), (categories, "categories"), (texts, "text"))
    mix = ", ".join(f"{_fields(n)} of {what}" for n, what in counted if n)
    if per is not None:
        why = f"a model for each {per}, which leans on all others; {mix}"
        return ModelChoice(OF_KEYS, why, parameters={PER: per})
    return ModelChoice("auto", f"{mix}: several learners, each weighed by how well it predicts")


def hint(name: str, names: Sequence[str]) -> str:
    """What a field that does not exist may have been meant to be."""
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"fields are {', '.join(names[:20])}"


def with_key(fields: Sequence[InferredField], key: str) -> list[InferredField]:
    """The fields, with one of them as the key of models, whatever it looks like.

    Raises
    ------
    ConfigError
        There is no such field.
    """
    names = [each.name for each in fields]
    if key not in names:
        raise ConfigError(f"--per: no field {key!r} that can be a key; {hint(key, names)}")
    why = "the key: each value has a model of its own"
    return [InferredField(key, "categorical", why) if f.name == key else f for f in fields]


def toml(
    source: Source,
    fields: Sequence[InferredField],
    choice: ModelChoice,
    warnings: Mapping[str, str] | None = None,
    missing: Sequence[str] | None = None,
) -> str:
    """The commented configuration.

    `warnings` are of single fields, `missing` are the user's texts for missing values.
    """
    lines = [
        f"# Written by `headwater init` from {source.sample}.",
        "# Every key and the reason of its default: docs/config.md. Other sections are optional:",
        "# [mail] [files] [labels] [reporters] [[challenger]] [promotion] [decision] [drift]",
        "# [output] [commit] [journal] [snapshots] [scale] [http] [serve] [telemetry] [kafka]",
        "# [registry].",
        "# After the first start [input], [features], [values], [labels] and [scale] cannot change",
        "# under this name; [model] can, by `headwater relearn`, and the number of shards by",
        "# `headwater reshard`.",
        "",
        f"name = {_text(source.name)}",
        "",
        "[input]",
        *_input(source),
        *_as_text(fields),
        "",
        *_registry(source),
        *_files(source),
        *_waiting(source),
        *_declared(source, fields, warnings or {}, missing),
        "[model]",
        f"# {choice.why}.",
        *(f"#   {line}".rstrip() for line in choice.scores),
        f"type = {_text(choice.model)}",
        *(f"{name} = {json.dumps(value)}" for name, value in choice.parameters.items()),
        "",
        "[http]",
        "port = 8321  # the live page, /metrics, /healthz, /v1/predict; on this machine only",
    ]
    return "\n".join(lines) + "\n"


def service_name(text: str) -> str:
    """`text` as the name of a service.

    Examples
    --------
    >>> service_name("Phishing pages (2024)"), service_name("…")
    ('Phishing-pages-2024', 'feed')
    """
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", text).strip("-._")[:100] or "feed"


def _input(source: Source) -> list[str]:
    lines = [
        f"transport = {_text(source.transport)}",
        f"observations = {_text(source.observations)}",
    ]
    if source.format != "json":
        lines.append(f"format = {_text(source.format)}")
    if source.labels:
        lines.append("# Records {id, label}, learned whenever they arrive.")
        lines.append(f"labels = {_text(source.labels)}")
    if source.label:
        lines.append("# The label comes inside the observation; it is learned after predicting it.")
        lines.append(f"label = {_text(source.label)}")
    if not (source.labels or source.label):
        lines.append("# Without labels the service predicts nothing useful: name where they are.")
        lines.append('# labels = "TOPIC"    or    label = "FIELD"')
    if source.changes:
        lines.append("# Change events of a table: the rows of these operations are the records.")
        lines.append(f"changes = [{', '.join(map(_text, source.changes))}]")
        lines.append('tombstones = "skip"  # after a delete')
    lines.append(f"id = {_text(source.id)}  # the key of the record where this field is absent")
    return lines


def _as_text(fields: Sequence[InferredField]) -> list[str]:
    """The key of the fields whose numbers are texts, if there are any."""
    names = ", ".join(_text(each.name) for each in fields if each.as_text)
    return [f'numbers_as_text = [{names}]  # "12.50" is 12.5'] if names else []


def _registry(source: Source) -> list[str]:
    """The registry, if the topics have schemas."""
    if source.registry is None:
        return []
    return ["[registry]", f"url = {_text(source.registry)}", ""]


def _waiting(source: Source) -> list[str]:
    """How long observations wait, if it is longer than by default."""
    if source.waiting is None:
        return []
    why, horizon, pending = source.waiting
    lines = [
        "[labels]",
        f"# {why[0].upper()}{why[1:]}, in the sample.",
        f"horizon = {_text(horizon)}",
    ]
    return [*lines, f"max_pending = {pending}", ""]


def _files(source: Source) -> list[str]:
    """How later files are read, if the sample shows it."""
    if source.decimal is None:
        return []
    lines = ["[files]", "# The decimal marks of the sample, so that later files are read alike."]
    return [*lines, f"decimal = {_text(source.decimal)}", ""]


def _declared(
    source: Source,
    fields: Sequence[InferredField],
    warnings: Mapping[str, str],
    missing: Sequence[str] | None,
) -> list[str]:
    """[features] and [values]; none for mail, whose fields are given."""
    if source.format == "mail":
        return []
    return ["[features]", *_features(fields, warnings), "", *_values(missing)]


def _features(fields: Sequence[InferredField], warnings: Mapping[str, str]) -> list[str]:
    lines = []
    for each in fields:
        shown = _key(each.name)
        if each.kind is None:
            lines.append(f"# {shown} is left out: {each.about}")
            if each.may_be_text:
                lines.append(f'# {shown} = "text"   # uncomment to learn from its words')
        else:
            if each.name in warnings:
                lines.append(f"# warning: {shown} {_comment(warnings[each.name])}")
            lines.append(f"{shown} = {_text(each.kind)}  # {each.about}")
    return lines


def _values(missing: Sequence[str] | None) -> list[str]:
    lines = [
        "[values]",
        "# A value that does not fit the kind of its field counts as missing, and is counted.",
        'on_bad_value = "missing"',
    ]
    if missing is not None:
        texts = ", ".join(map(_text, missing))
        lines.append(f"missing = [{texts}]  # instead of NA, ? and so on")
    return [*lines, ""]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    # A JSON string is a TOML basic string, except that TOML requires DEL to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    """Text in a comment, which ends at a line break; TOML allows no control characters in it."""
    return "".join(c if c.isprintable() else " " for c in text)


def _fields(n: int) -> str:
    return f"{n} field" if n == 1 else f"{n} fields"


# What to do with a label that is a measurement.
RANGES = "a model predicts classes, no numbers: name a field that holds classes, or ranges"
MEASURED, REPEATS = 30, 10  # as many different integers, each in fewer records, are measurements

MOST_CLASSES = 256  # the default of [model] max_classes
ONE_CLASS = "only one class"  # how the warning of it begins


def check_labels(label: str, values: Sequence[Any], where: str) -> list[str]:
    """Check that a model can learn these labels; returns warnings, each one line.

    Parameters
    ----------
    values
        The labels of the sample, None for a record without one.
    where
        What the sample is, such as "500 records of pages.csv".

    Raises
    ------
    ConfigError
        They are decimal numbers, lists or objects, ids, or too many classes.

    Examples
    --------
    >>> check_labels("bought", [True, True], "2 records of visits.csv")
    ['only one class in 2 records of visits.csv; is it sorted by class?']
    """
    missing = sum(v is None or v != v for v in values)
    values = [v for v in values if v is not None and v == v]
    names = [name_of(v) for v in values]
    if not any(isinstance(name, float) for name in names):  # or they are measurements
        values = names
    wrong = [v for v in values if not isinstance(v, str | int)]
    if wrong and len(wrong) * 2 >= len(values):
        raise ConfigError(_no_class(label, wrong, where))
    classes = {(type(v) is bool, v) for v in values if isinstance(v, str | int)}
    if len(classes) == len(values) >= FEW_RECORDS:
        raise ConfigError(
            f"label {label!r}: all {len(values):,} values are distinct in {where}: this looks like "
            "an id or a measurement; name a field that holds classes"
        )
    numbers = all(type(v) is int for v in values)
    if len(classes) > MOST_CLASSES:
        raise ConfigError(
            f"label {label!r}: {len(classes):,} classes in {where}, expected at most "
            f"{MOST_CLASSES}; " + (RANGES if numbers else "name a field that holds fewer")
        )
    warnings = []
    if numbers and len(classes) >= MEASURED and len(classes) * REPEATS > len(values):
        warnings.append(
            f"label {label}: {len(classes):,} different integers in {where} look like a "
            f"measurement; {RANGES}"
        )
    warnings += _spelled_alike(label, values)
    if wrong:
        warnings.append(
            f"label {label}: "
            + share_text(len(wrong), len(values), "neither text, integer nor truth value")
            + "; such labels become dead letters"
        )
    if len(classes) == 1:
        do = "is it sorted by class?"
        if missing:
            do = (
                f"{missing:,} of them have no label: if they never get one, [labels] silence says "
                "what they are (docs/operations.md)"
            )
        warnings.append(f"{ONE_CLASS} in {where}; {do}")
    return warnings


def doubtful(values: Sequence[Any]) -> list[str]:
    """What is odd about the labels of a topic, one line each, also if a model cannot learn them.

    Examples
    --------
    >>> print(*doubtful([0.5, 0.7]))
    label 'label': expected text, integers or truth values, got 0.5 in the first 2 labels; a model \
predicts classes, no numbers: name a field that holds classes, or ranges
    """
    values = [value for value in values if value is not None]
    if not values:
        return []
    try:
        found = check_labels("label", values, first_ones(len(values), "label"))
    except ConfigError as error:
        return [str(error)]
    return [*found, *other_kinds("label", values)]


def other_kinds(label: str, values: Sequence[Any]) -> list[str]:
    """A warning of labels of another kind than the first one, which a service refuses; [] without
    such.

    Examples
    --------
    >>> print(*other_kinds("paid", [True, None, False, "true", 1]))
    label paid: 2 of 4 labels are of another kind than the first one (True, then 'true'): they \
would be dead letters; write them alike
    >>> print(*other_kinds("label", [1, "a"]))
    label: 1 of 2 labels is of another kind than the first one (1, then 'a'): they would be dead \
letters; write them alike
    """
    field = "label" if label == "label" else f"label {label}"
    names = [name_of(value) for value in values]
    known = [name for name in names if isinstance(name, str | int)]
    others = [name for name in known if type(name) is not type(known[0])]
    if not others:
        return []
    are = "is" if len(others) == 1 else "are"
    return [
        f"{field}: {len(others):,} of {counted(len(known), 'label')} {are} of another kind "
        f"than the first one ({known[0]!r:.40}, then {others[0]!r:.40}): they would be dead "
        "letters; write them alike"
    ]


def _spelled_alike(label: str, values: Sequence[Any]) -> list[str]:
    """A warning of classes whose names differ only in case or spaces; [] without such."""
    by_spelling: dict[str, set[str]] = {}
    for value in values:
        if isinstance(value, str):
            by_spelling.setdefault(" ".join(value.split()).casefold(), set()).add(value)
    same = next((sorted(names) for names in by_spelling.values() if len(names) > 1), None)
    if same is None:
        return []
    return [
        f"label {label}: {' and '.join(map(repr, same[:3]))} are different classes; if they mean "
        "the same, spell them alike"
    ]


def _no_class(label: str, wrong: Sequence[Any], where: str) -> str:
    """Raise the error for values that cannot be labels, with what to do."""
    do = "name a field that holds classes"
    if all(isinstance(v, float) for v in wrong):
        do = RANGES
    shown = repr(wrong[0])
    shown = shown if len(shown) <= 40 else shown[:39] + "…"
    return f"label {label!r}: expected text, integers or truth values, got {shown} in {where}; {do}"


MIN_LEARNED = 5
UNSURE = 0.5
MIN_PROBABILITY = 0.7
CORRECTED = "corrections = true  # the other label replaces the first one"
# Name to what the observations are, and the lines of [input] and [features].
FORMATS = {
    "mail": (
        "raw mails; in requests a mail is base64 in the field `mail`",
        ['format = "mail"'],
        [],
    ),
    "text": ("one text each", ['format = "text"'], []),
    "json": (
        "JSON with a field `text`",
        ['id = "id"'],
        ["[features]", 'text = "text"', ""],
    ),
}


def spam_filter(name: str, what: str, rate: float, *, corrections: bool) -> str:
    """The configuration.

    Parameters
    ----------
    name
        Of the service.
    what
        One of `FORMATS`.
    rate
        The largest share of ham that may be called spam.
    corrections
        Whether the model can replace a label by the other one.

    Raises
    ------
    ConfigError
        The format or the rate is not valid.

    Examples
    --------
    >>> spam_filter("spam", "mail", 0.01, corrections=True).splitlines()[3]
    'name = "spam"'
    """
    if what not in FORMATS:
        raise ConfigError(
            f"--spam: expected --format {', '.join(FORMATS)}, got {what!r}; give one of them"
        )
    try:
        budget = Budget("spam", rate, MIN_LEARNED, UNSURE, MIN_PROBABILITY)
    except ValueError as error:
        raise ConfigError(f"--budget: {error}; give a share such as 0.01") from None
    return "\n".join(_lines(name, what, budget, corrections=corrections))


def _lines(name: str, what: str, budget: Budget, *, corrections: bool) -> list[str]:
    about, keys, features = FORMATS[what]
    topic = "mail" if what == "mail" else "messages"
    shown = json.dumps(name)
    return [
        f"# Written by `headwater init --spam`: a filter of {topic}. Next: docs/howto/spam.md.",
        "# Every key and the reason of its default: docs/config.md.",
        "",
        f"name = {shown}",
        "",
        "[input]",
        f"transport = {json.dumps(f'sqlite:{name}.db')}",
        f"observations = {json.dumps(f'{name}-{topic}')}  # {about}",
        f"labels = {json.dumps(f'{name}-labels')}  # {{id, label}}: spam or ham",
        *keys,
        "",
        *features,
        "[labels]",
        *([CORRECTED] if corrections else []),
        'horizon = "30d"  # how late a label may come',
        "",
        "[model]",
        'type = "spam"',
        "max_classes = 2  # any other label than these two is refused",
        "",
        "[decision]",
        "# The action is spam, ham, or none: unsure. At most this share of ham is called spam,",
        f"# and nothing before {budget.needed:,} ham were learned. One whose words speak for spam",
        "# and that may not be called so is unsure, and so is one without a known word.",
        "# docs/budget.md",
        f'max_false_positive_rate = {{label = "spam", rate = {budget.rate:g}, unsure = {UNSURE}, '
        f"min_learned = {MIN_LEARNED}, min_probability = {MIN_PROBABILITY}}}",
        "",
        "[snapshots]",
        f"directory = {json.dumps(f'{name}-snapshots')}",
        "",
        "[http]",
        "port = 8321  # the live page, /metrics, and the requests; on this machine only",
        "",
        "[serve]",
        'timeout = "10s"',
        "# Elsewhere than on this machine requests need tokens:",
        '# read_token = "${file:read-token}"',
        '# write_token = "${file:write-token}"',
        "",
    ]

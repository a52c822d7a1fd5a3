"""From inferred fields to a configuration: the model, why, and the commented TOML. Pure.

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
from typing import Any

from consumers.base.errors import ConfigError
from consumers.config.auto import OF_KEYS, PER
from consumers.config.sample import InferredField

__all__ = ["ModelChoice", "Source", "choose", "hint", "service_name", "toml", "with_key"]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model, why it was chosen, and the scores that show it, as lines; and its parameters."""

    model: str
    why: str
    scores: Sequence[str] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


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
        "",
        *_registry(source),
        *_files(source),
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
    lines.append(f"id = {_text(source.id)}  # the key of the record where this field is absent")
    return lines


def _registry(source: Source) -> list[str]:
    """The registry, if the topics have schemas."""
    if source.registry is None:
        return []
    return ["[registry]", f"url = {_text(source.registry)}", ""]


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

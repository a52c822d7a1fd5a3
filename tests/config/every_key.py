"""Configurations in which every key of every section is set, written from the section classes.

A key that is added to a section is set too, to another value than its default: by its type, or by
`EXAMPLES` where its type does not say what it may be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import quote

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from consumers.config import Config

__all__ = [
    "PASSWORD",
    "SECRETS",
    "SIGNING",
    "TOKEN",
    "VARIANTS",
    "every_key",
    "keys",
    "place",
    "shown",
    "toml",
    "written",
]

PASSWORD = "Zq7-correct'horse\"\\battery"
SIGNING = "9f31c07be2a84d56" * 4  # in a file
TOKEN = "u8Kd02LmPw5RtVx1"
READING, WRITING = "Jm5xQv8rTb2nKc7w", "Hd3yLp9sWz6fGa1e"  # in files
REGISTRY = "Lw4cVb9eYt6uNj3m"  # in a file
SECRETS = (PASSWORD, SIGNING, TOKEN, READING, WRITING, REGISTRY)
LETTERS = 8  # a quarter of a key less is no secret; fewer come about by chance in a state's bytes

EXAMPLES: dict[str, Any] = {
    "name": "everything",
    "features": {"a": "numeric", "b.c": "numeric", "d": "categorical"},
    "kafka": {"client_id": "c", "sasl_plain_password": "${env:HEADWATER_TEST_PASSWORD}"},
    "input.transport": "sqlite:every-key.db",
    "input.id": "key.id",
    "input.label": "truth",
    "input.format": "avro",
    "input.reader_schema": "reader.avsc",
    "input.numbers_as_text": ["a"],
    "input.changes": ["c", "u"],
    "files.decimal": "a=,;d=.",
    "registry.url": "https://registry:8081",
    "registry.username": "somebody",
    "registry.password": "${file:registry-password}",
    "registry.token": "${file:registry-password}",
    "registry.timeout": "3s",
    "input.start": "2024-03-01T12:00:00Z",
    "mail.ignore_headers": ["x-our-*"],
    "values.missing": ["-999", "NA"],
    "labels.horizon": "90m",
    "labels.silence": "pays",
    "labels.after": "45m",
    "labels.label_frequency": 0.3,
    "reporters.min_trust": 0.55,
    "model.type": "CategoricalNB",
    "model.parameters": {"alpha": 0.5},
    "model.max_state_bytes": "512MiB",
    "challenger.name": "rival",
    "challenger.type": "CategoricalNB",
    "challenger.parameters": {"alpha": 2},
    "model.trust_python": ["shop.models"],
    "challenger.trust_python": ["shop"],
    "challenger.max_state_bytes": "512MiB",
    "decision.losses": {"lend": {"pays": 0, "defaults": 10}, "no": {"pays": 1, "defaults": 0}},
    "decision.reject": 0.25,
    "decision.max_false_positive_rate": {
        "label": "pays",
        "rate": 0.01,
        "unsure": 0.4,
        "min_learned": 30,
        "min_probability": 0.2,
    },
    "drift.detectors": [
        {"on": "feature:a", "type": "PageHinkley", "action": "forget", "threshold": 40},
        {"on": "error", "type": "ADWIN", "parameters": {"delta": 0.01}},
    ],
    "journal.retention": "3d",
    "commit.max_bytes": "2MiB",
    "commit.max_records": 700,
    "scale.mix": "7s",
    "snapshots.copy_to": f"file:///mount?token={TOKEN}",
    "snapshots.key": "${file:signing-key}",
    "serve.read_token": "${file:read-token}",
    "serve.write_token": "${file:write-token}",
    "serve.port": 8322,
    "serve.max_age": "3s",
    "serve.timeout": "20s",
    "http.host": "0.0.0.0",
    "http.max_idle": "90s",
    "http.allowed_hosts": ["metrics", "proxy.example"],
}
SILENCE = ("silence", "after", "score_silence", "label_frequency")
AVRO = ("format", "reader_schema")
NOTES = "notes"  # not with AVRO, whose predictions have a schema
BUDGET = "max_false_positive_rate"
# Keys of which one forbids the other stand in several configurations: what each has in [model]
# and [[challenger]], and which keys and sections it has not.
VARIANTS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "fixed": (
        {"bins": {"edges": {"a": [1, 2.5]}}},
        {"pipeline", "trust_pickle", "seed", "token", "mix", BUDGET, "changes", *SILENCE, *AVRO},
    ),
    "silent": (
        {"bins": {"edges": {"a": [1, 2.5]}}},
        {
            *("pipeline", "trust_pickle", "seed", "challenger", "action", "explain", "token"),
            *(BUDGET, "mail", "mix", NOTES),
        },
    ),
    "budget": (
        {"bins": {"edges": {"a": [1, 2.5]}}},
        {
            *("pipeline", "trust_pickle", "seed", "challenger", "detectors", "losses", "reject"),
            *SILENCE,
            *("action", "token", "mail", "mix", NOTES),
        },
    ),
    "mixed": (
        {"bins": {"edges": {"a": [1, 2.5]}}},
        {
            *("pipeline", "trust_pickle", "seed", "token", "detectors", "action"),
            *(BUDGET, "changes", *SILENCE, *AVRO),
        },
    ),
    "learned": (
        {"bins": {"strategy": "quantile", "n_bins": 4}},
        {
            "pipeline",
            "trust_pickle",
            "seed",
            "corrections",
            "token",
            "mail",
            "mix",
            BUDGET,
            NOTES,
            *SILENCE,
        },
    ),
    "river": (
        {"type": "river:naive_bayes.GaussianNB", "pipeline": ["preprocessing.StandardScaler"]},
        {
            *("bins", "parameters", "corrections", "explain", "username", "password", "mail"),
            *(BUDGET, "mix", NOTES, *SILENCE),
        },
    ),
}


def place(directory: Path, setenv: Callable[[str, str], object]) -> None:
    """Put the secrets where the configuration points to."""
    setenv("HEADWATER_TEST_PASSWORD", PASSWORD)
    for name, secret in (
        ("signing-key", SIGNING),
        ("read-token", READING),
        ("write-token", WRITING),
        ("registry-password", REGISTRY),
    ):
        (directory / name).write_text(secret + "\n", encoding="utf-8")
    (directory / "reader.avsc").write_text('"string"', encoding="utf-8")


def shown(text: str | bytes, secrets: Sequence[str] = SECRETS) -> list[str]:
    """Which secrets are in it, wholly or `LETTERS` of their characters in a row."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    forms = {
        secret: {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret)}
        for secret in secrets
    }
    return [
        secret
        for secret in secrets
        if any(
            form.encode()[n : n + LETTERS] in data
            for form in forms[secret]
            for n in range(len(form.encode()) - LETTERS + 1)
        )
    ]


def every_key(variant: str) -> dict[str, Any]:
    """Every key that such a configuration may have, with a value that is not its default."""
    config = {name: _value(name, field, variant) for name, field in Config.model_fields.items()}
    return {name: value for name, value in config.items() if value is not None}


def keys(kind: type[BaseModel] = Config) -> set[str]:
    """Every key of a section class and of those in it, as CLASS.KEY."""
    found = set()
    for name, field in kind.model_fields.items():
        found.add(f"{kind.__name__}.{name}")
        for inner in _sections(field.annotation):
            found |= keys(inner)
    return found


def written(config: BaseModel) -> set[str]:
    """The keys that are set to something else than their default, as CLASS.KEY."""
    found = set()
    for name in config.model_fields_set:
        field, value = type(config).model_fields[name], getattr(config, name)
        default = (
            None
            if field.is_required()
            else field.get_default(call_default_factory=True, validated_data={})
        )
        if value != default or _only(field):
            found.add(f"{type(config).__name__}.{name}")
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, BaseModel):
                found |= written(inner)
    return found


def _value(path: str, field: FieldInfo, variant: str) -> Any:
    section, _, key = path.rpartition(".")
    special, left_out = VARIANTS[variant]
    if key in left_out and (section or key in ("challenger", "mail")):
        return None
    if section in ("model", "challenger") and key in special:
        return special[key]
    if path in EXAMPLES:
        return EXAMPLES[path]
    inner = _sections(field.annotation)
    if not inner:
        return _by_type(path, field)
    given = {
        name: _value(f"{path}.{name}", each, variant)
        for name, each in inner[0].model_fields.items()
    }
    table = {name: value for name, value in given.items() if value is not None}
    return [table] if get_origin(field.annotation) is tuple else table


def _by_type(path: str, field: FieldInfo) -> Any:
    """Another value than the default, within the bounds."""
    default = field.get_default(call_default_factory=True, validated_data={})
    kinds = _kinds(field.annotation)
    if get_origin(field.annotation) is Literal:
        return next(
            value
            for value in reversed(get_args(field.annotation))
            if value != default or _only(field)
        )
    if bool in kinds:
        return not default
    if int in kinds:
        most = min([getattr(m, "le", default + 1) for m in field.metadata] or [default + 1])
        return default + 1 if default + 1 <= most else default - 1
    if float in kinds:
        return default * 0.75
    if str in kinds or Path in kinds:
        return path.replace(".", "-")
    raise AssertionError(f"say in EXAMPLES what {path} may be")


def _only(field: FieldInfo) -> bool:
    """Whether there is one value that it may have."""
    return get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1


def _kinds(annotation: Any) -> set[Any]:
    """The types of which a value may be."""
    if get_origin(annotation) in (Union, UnionType):
        return set().union(*(_kinds(each) for each in get_args(annotation)))
    metadata = getattr(annotation, "__metadata__", None)
    return {annotation.__origin__} if metadata else {annotation}


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The section classes a key holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    inner = [] if get_origin(annotation) is Literal else get_args(annotation)
    return [kind for each in inner for kind in _sections(each)]


def toml(table: dict[str, Any]) -> str:
    """The configuration as a file."""
    return "\n".join(f"{_quoted(key)} = {_inline(value)}" for key, value in table.items()) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_quoted(key)} = {_inline(each)}" for key, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return json.dumps(value)


def _quoted(key: str) -> str:
    return json.dumps(key)

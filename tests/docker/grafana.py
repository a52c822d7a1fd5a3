"""Whether a dashboard is one, by Grafana's own schema as its foundation SDK carries it.

Rule: the SDK reads what it knows and drops the rest, and believes any type. So what it read is
written again and must be all that was given, and every value is held to its declared type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as schema

__all__ = ["faults"]


@cache
def _registered() -> None:
    register_default_plugins()


def faults(given: dict[str, Any]) -> list[str]:
    """What Grafana would not take, or would silently drop; a line each."""
    _registered()
    try:
        read = schema.Dashboard.from_json(given)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        return [f"dashboard: cannot be read: {type(error).__name__} {error}"]
    written = json.loads(JSONEncoder().encode(read))
    return [*_dropped(given, written, "dashboard"), *_mistyped(read, schema.Dashboard, "dashboard")]


def _dropped(given: Any, kept: Any, at: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            if key not in kept:
                yield f"{at}.{key}: not in the schema"
            else:
                yield from _dropped(value, kept[key], f"{at}.{key}")
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for i, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from _dropped(one, other, f"{at}[{i}]")
    elif given != kept:
        yield f"{at}: {given!r} becomes {kept!r}"


def _mistyped(value: Any, hint: Any, at: str) -> Iterator[str]:
    """Where a value is not of its declared type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        if hasattr(value, "to_json"):  # the schema leaves open which: that of the panel's kind
            yield from _members(value, at)
    elif origin in (Union, UnionType):
        choices = [c for c in arguments if c is not NoneType or value is None]
        found = [list(_mistyped(value, choice, at)) for choice in choices]
        if all(found):  # the one that comes nearest tells
            yield from max(found, key=lambda lines: max(map(len, lines)))
    elif origin is Literal:
        if value not in arguments:
            yield f"{at}: expected one of {arguments}, got {value!r}"
    elif origin in (list, dict):
        if not isinstance(value, origin):
            yield f"{at}: expected a {origin.__name__}, got {value!r}"
            return
        inside = value.items() if origin is dict else enumerate(value)
        for key, each in inside:
            yield from _mistyped(each, arguments[-1], f"{at}[{key!r}]")
    elif hint in (NoneType, None):
        if value is not None:
            yield f"{at}: expected nothing, got {value!r}"
    elif isinstance(hint, type) and issubclass(hint, Enum):
        if value not in [member.value for member in hint]:
            yield f"{at}: expected one of {[m.value for m in hint]}, got {value!r}"
    elif isinstance(value, dict) and hasattr(hint, "from_json"):  # some the SDK leaves as they are
        yield from _mistyped(hint.from_json(value), hint, at)
    elif isinstance(hint, type):
        good = isinstance(value, hint) and not (isinstance(value, bool) and hint is not bool)
        if not good and not (hint is float and type(value) is int):
            yield f"{at}: expected {hint.__name__}, got {value!r}"
        elif hasattr(value, "to_json"):
            yield from _members(value, at)


def _members(value: Any, at: str) -> Iterator[str]:
    hints = get_type_hints(type(value))
    for name, inner in vars(value).items():
        yield from _mistyped(inner, hints.get(name, Any), f"{at}.{name}")

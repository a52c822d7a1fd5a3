"""river models by the names of their classes. A module of river is imported only when it is named.

A class is a text, `"river:optim.Adam"`, or a table with its arguments, `{type = "river:optim.Adam",
lr = 0.01}`. In a pipeline the prefix `river:` is optional, because every step is a class of river.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import Any, cast

from river import base

from stream.compat.classifier import one_line
from stream.compat.steps import CLASS_PATH, RIVER, UNION, check_steps
from stream.data.parameters import shown
from stream.errors import SchemaError

__all__ = ["build_river"]

PIPELINE = "pipeline"
TRANSFORMERS = (base.Transformer, base.SupervisedTransformer)
# Own classes instead of river's, see stream.compat.transformers.
OWN = {
    "compose.Select": "Select",
    "feature_extraction.BagOfWords": "BagOfWords",
    "feature_extraction.TFIDF": "TFIDF",
}
TYPES = {"float": float, "str": str}  # of the values that a model gets, for compose.SelectType


def build_river(
    name: str,
    parameters: Mapping[str, Any] | None = None,
    pipeline: Sequence[Any] = (),
    seed: int = 0,
    every_class: bool = False,
) -> base.Classifier:
    """A river classifier by name, after the transformers of `pipeline`.

    Parameters
    ----------
    name
        The class under ``river.``: ``"tree.HoeffdingTreeClassifier"``.
    parameters
        Its parameters. A value may be a class of river, also in a list: ``"river:optim.Adam"``,
        with its defaults, or ``{"type": "river:optim.Adam", "lr": 0.01}``. A classifier in such a
        table may have a `pipeline` of its own.
    pipeline
        Steps before the classifier, in order. Each is a transformer, as a name or as a table with
        `type` and arguments, a list of steps one after the other, or ``{"union": [...]}``: steps
        beside each other on the same record, whose results are put together.
    seed
        Passed to every class that has a `seed` parameter, unless it is in its parameters.
    every_class
        Whether a classifier of two classes becomes one for each class, see `one_vs_rest`.

    Raises
    ------
    SchemaError
        river does not have the name or parameter, or its class rejects a value.

    Examples
    --------
    >>> str(build_river("naive_bayes.GaussianNB", pipeline=["preprocessing.StandardScaler"]))
    'StandardScaler | GaussianNB'
    >>> numbers = [{"type": "compose.Select", "keys": ["age"]}, "preprocessing.StandardScaler"]
    >>> words = {"type": "feature_extraction.BagOfWords", "on": "body"}
    >>> model = build_river("linear_model.Perceptron", pipeline=[{"union": [numbers, words]}])
    >>> list(model.steps["TransformerUnion"].transformers)
    ['Pipeline', 'BagOfWords']
    """
    model = _build(name, parameters or {}, seed, (base.Classifier,), "classifier")
    if every_class:
        model = import_module("stream.compat.transformers").one_vs_rest(model)
    return cast("base.Classifier", _after(pipeline, model, seed))


def _after(pipeline: Sequence[Any], model: base.Base, seed: int) -> base.Base:
    """`model` after the steps of a pipeline."""
    check_steps(pipeline)
    if not pipeline:
        return model
    return cast("base.Base", _piped([*(_step(step, seed) for step in pipeline), model]))


def _piped(steps: list[Any]) -> Any:
    return import_module("river.compose").Pipeline(*steps)


def _step(step: Any, seed: int) -> Any:
    """A transformer, a list of them, or a union."""
    if isinstance(step, str):
        step = {"type": step}
    if not isinstance(step, Mapping):
        steps = [_step(each, seed) for each in step]
        return steps[0] if len(steps) == 1 else _piped(steps)
    if UNION in step:
        beside = [_step(each, seed) for each in step[UNION]]
        return import_module("river.compose").TransformerUnion(*beside)
    given = dict(step)
    name = given.pop("type").removeprefix(RIVER)
    return _build(name, given, seed, TRANSFORMERS, "transformer")


def _build(
    name: str, parameters: Mapping[str, Any], seed: int, kinds: tuple[type, ...], kind: str
) -> base.Base:
    cls = _find(name, kinds, kind)
    accepted = inspect.signature(cls).parameters
    for key in parameters:
        if key not in accepted:
            near = ", ".join(_near(key, list(accepted))) or "none: it has no parameters"
            raise SchemaError(f"river:{name} has no parameter {key!r}; nearest: {near}")
    given = {key: _value(value, seed) for key, value in parameters.items()}
    if "seed" in accepted:
        given.setdefault("seed", seed)
    several = next((p.name for p in accepted.values() if p.kind is p.VAR_POSITIONAL), None)
    made = cls if several is None else partial(cls, *_listed(name, several, given))
    try:
        out: base.Base = made(**given)
    except Exception as error:
        raise SchemaError(f"river:{name} cannot be built: {one_line(error)}") from error
    return out


def _listed(name: str, key: str, given: dict[str, Any]) -> list[Any]:
    """The arguments of a class that takes any number of them, such as the keys of Select."""
    values = given.pop(key, None)
    if not isinstance(values, list | tuple) or not values:
        raise SchemaError(
            f"river:{name} needs {key}, a list that is not empty, got "
            f"{'nothing' if values is None else shown(values)}"
        )
    if name != "compose.SelectType":
        return list(values)
    for value in values:
        if value not in TYPES:
            raise SchemaError(
                f'river:{name} {key}: expected "float" (numbers and truth values) or "str" '
                f"(categories and texts), got {shown(value)}"
            )
    return [TYPES[value] for value in values]


def _value(value: Any, seed: int) -> Any:
    """An argument; a class of river is built."""
    if isinstance(value, str) and value.startswith(RIVER):
        value = {"type": value}
    if isinstance(value, list | tuple):
        return [_value(item, seed) for item in value]
    if not isinstance(value, Mapping):
        return value
    given = dict(value)
    name = given.get("type")
    if not isinstance(name, str) or not name.startswith(RIVER):
        if isinstance(name, str) and re.fullmatch(CLASS_PATH, name, re.ASCII):
            raise SchemaError(f"expected {RIVER}MODULE.CLASS, got {name!r}; write {RIVER}{name}")
        return {key: _value(item, seed) for key, item in value.items()}
    del given["type"]
    steps = given.pop(PIPELINE, ())
    model = _build(name.removeprefix(RIVER), given, seed, (base.Base,), "class")
    return _after(steps, model, seed)


def _find(name: str, kinds: tuple[type, ...], kind: str) -> Any:
    """The public class `name` of river, if it is a subclass of one of `kinds`."""
    found: Any = None
    room, _, last = name.rpartition(".")
    if (module := _module(room)) is not None and last in getattr(module, "__all__", ()):
        found = getattr(module, last, None)
    if inspect.isclass(found) and issubclass(found, kinds) and not inspect.isabstract(found):
        if name in OWN:
            return getattr(import_module("stream.compat.transformers"), OWN[name])
        return found
    names = _names(kinds)
    raise SchemaError(f"river has no {kind} {name!r}; nearest: {', '.join(_near(name, names))}")


def _module(room: str) -> Any:
    """A public module of river, such as optim or optim.losses, or None."""
    first, _, inner = room.partition(".")
    try:
        found = import_module(f"river.{first}") if first.isidentifier() else None
    except ImportError:
        return None
    for part in filter(None, inner.split(".")):
        public = part in getattr(found, "__all__", ())
        found = getattr(found, part, None) if public else None
    return found if inspect.ismodule(found) else None


def _names(kinds: tuple[type, ...]) -> list[str]:
    """Every public river class that is a subclass of one of `kinds`, as module.Class. Imports all
    of river."""
    api = import_module("river.api")
    return [name for room in api.__all__ for name in _names_in(room, getattr(api, room), kinds)]


def _names_in(room: str, module: Any, kinds: tuple[type, ...]) -> list[str]:
    out = []
    for name in getattr(module, "__all__", ()):
        found = getattr(module, name, None)
        if inspect.ismodule(found):
            out += _names_in(f"{room}.{name}", found, kinds)
        elif inspect.isclass(found) and issubclass(found, kinds) and not inspect.isabstract(found):
            out.append(f"{room}.{name}")
    return out


def _near(name: str, names: Sequence[str]) -> list[str]:
    return get_close_matches(name, names, n=3, cutoff=0.0)

"""From the configuration's [model] to a learner, with its bounds checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, cast

import stream
from consumers.config.learner import Model
from consumers.errors import ConfigError
from stream.base import Learner
from stream.errors import SchemaError

__all__ = ["build", "classes_that_fit", "explained", "spoken"]

AUTO = "MixedNB"  # what "auto" is


def spoken(name: str) -> str:
    """[model] type `name` as predictions name it: "auto" says nothing to their reader."""
    return AUTO if name == "auto" else name


def family(name: str) -> Callable[..., Learner]:
    """The class of [model] type `name`, one of ours."""
    return cast("Callable[..., Learner]", getattr(stream, spoken(name)))


def build(model: Model) -> Learner:
    """The empty learner that [model] describes.

    Raises
    ------
    ConfigError
        A parameter it does not have or cannot use, or too little memory for two classes.
    """
    try:
        if model.type.startswith("river:"):
            return _river(model)
        kind = family(model.type)
        known = list(inspect.signature(kind).parameters)
        for name in model.parameters:
            if name not in known:
                near = get_close_matches(name, [*known, *type(model).model_fields], n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
                raise SchemaError(f"no parameter {name!r}; {hint}")
        learner = kind(**model.parameters)
    except (TypeError, AttributeError, SchemaError) as error:
        raise ConfigError(f"[model] {model.type}: {error}") from None
    classes_that_fit(model, learner)
    return learner


def classes_that_fit(model: Model, learner: Learner) -> int:
    """How many classes `max_classes` and `max_state_bytes` allow together."""
    size = int(getattr(learner, "bytes_per_class", 0))
    if not size:
        return min(model.max_classes, learner.max_classes)
    fit = model.max_state_bytes // size
    if fit < 2:
        raise ConfigError(
            f"[model] max_state_bytes = {model.max_state_bytes:,} holds {fit} classes of "
            f"{size:,} bytes; {model.type} needs at least {2 * size:,}"
        )
    return min(model.max_classes, learner.max_classes, fit)


def explained(shares: int, learner: Learner) -> int:
    """`[output] explain`, where the learner can.

    Raises
    ------
    ConfigError
        It has no shares of features.
    """
    if shares and type(learner).explain_rows is Learner.explain_rows:
        raise ConfigError(
            f"[output] explain: {type(learner).__name__} has no shares of features; remove explain"
        )
    return shares


def _river(model: Model) -> Learner:
    from stream.compat import RiverClassifier, build_river

    name = model.type.removeprefix("river:")
    parameters: dict[str, Any] = dict(model.parameters)
    river = build_river(name, parameters, model.pipeline, model.seed)
    return RiverClassifier(river, trust_pickle=model.trust_pickle)

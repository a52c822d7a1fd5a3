"""From the configuration's [model] to a learner, with its bounds checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from consumers.config.sections import Model
from consumers.errors import ConfigError
from stream.base import Learner
from stream.bayes import GaussianNB, MultinomialNB
from stream.errors import SchemaError

__all__ = ["build", "classes_that_fit"]

OWN: dict[str, Callable[..., Learner]] = {
    "gaussian_nb": GaussianNB,
    "multinomial_nb": MultinomialNB,
}


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
        family = OWN[model.type]
        known = list(inspect.signature(family).parameters)
        for name in model.parameters:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
                raise SchemaError(f"no parameter {name!r}; {hint}")
        learner = family(**model.parameters)
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


def _river(model: Model) -> Learner:
    from stream.compat import RiverClassifier, build_river

    name = model.type.removeprefix("river:")
    parameters: dict[str, Any] = dict(model.parameters)
    river = build_river(name, parameters, model.pipeline, model.seed)
    return RiverClassifier(river, trust_pickle=model.trust_pickle)

"""A model from Python code of the user: `type = "python:MODULE:NAME"`.

Rule: a module is imported only if the configuration trusts it, because importing runs its code. A
journal or a snapshot never decides that.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any

from river import base

from consumers.config.learner import PYTHON, LearnerConfig, trusts
from stream.compat import RiverClassifier
from stream.compat.classifier import one_line
from stream.data.parameters import shown
from stream.errors import SchemaError
from stream.learner.base import Learner

__all__ = ["made_by_code", "untrusted_code"]

EXPECTED = (
    "return a classifier of river, a pipeline that ends in one, or a Learner of stream, new and "
    "untrained at every call"
)


def made_by_code(model: LearnerConfig, several: bool) -> Learner:
    """The empty learner that a factory returns.

    Parameters
    ----------
    model
        Its `parameters` are the keyword arguments of the factory. `seed` is one more if the factory
        has an argument of this name.
    several
        Whether a classifier of river that knows two classes becomes one for each class.

    Raises
    ------
    SchemaError
        The code is not trusted, cannot be imported or fails, or does not return a classifier.
    """
    if not trusts(model.trust_python, model.type):
        raise SchemaError(untrusted_code(model.type))
    module, _, path = model.type.removeprefix(PYTHON).partition(":")
    factory = _found(_imported(module), module, path)
    given = _arguments(factory, path, model)
    made = _returned(factory, path, given)
    learner = _learner(made, path, several, model.trust_pickle)
    if _returned(factory, path, given) is made:
        raise SchemaError(f"{path} returned the same object twice; {EXPECTED}")
    try:
        learner.restarted(proven=False)
    except Exception as error:
        raise SchemaError(
            f"{path} returned a {type(made).__name__} that cannot be cloned ({one_line(error)}); "
            "its __init__ has to store each argument under the name of the argument"
        ) from None
    return learner


def untrusted_code(type_: str) -> str:
    """Why code is not imported, and what to do."""
    module = type_.removeprefix(PYTHON).partition(":")[0]
    return (
        "importing a module runs its code; if you trust it, set trust_python = "
        f'["{module}"] beside type'
    )


def _imported(module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        lacking = error.name or module
        if module == lacking or module.startswith(f"{lacking}."):
            raise SchemaError(
                f"there is no module {lacking!r}; install its package into the environment of "
                "headwater, or add its directory to PYTHONPATH"
            ) from None
        raise SchemaError(
            f"the module {module} needs {lacking!r}, which is not installed; install it"
        ) from None
    except (Exception, SystemExit) as error:
        raise SchemaError(
            f"the module {module} cannot be imported ({one_line(error)}); correct it, and try "
            f"python -c 'import {module}'"
        ) from None


def _found(module: ModuleType, name: str, path: str) -> Callable[..., Any]:
    """The factory in a module."""
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            public = [known for known in dir(found) if not known.startswith("_")]
            near = get_close_matches(part, public, n=3, cutoff=0.0)
            has = f"; nearest: {', '.join(near)}" if near else ""
            raise SchemaError(f"the module {name} has no {path!r}{has}")
        found = getattr(found, part)
    if not callable(found):
        raise SchemaError(
            f"{path} is not callable, but {shown(found)}; name a function that makes the model"
        )
    made: Callable[..., Any] = found
    return made


def _arguments(factory: Callable[..., Any], path: str, model: LearnerConfig) -> dict[str, Any]:
    """The keyword arguments of the factory."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # of a class that is not written in Python
        return dict(model.parameters)
    seed = {"seed": model.seed} if "seed" in signature.parameters else {}
    given = {**seed, **model.parameters}
    try:
        signature.bind(**given)
    except TypeError as error:
        raise SchemaError(
            f"{path}{signature} does not take the parameters of [model]: {error}; change one of "
            "them"
        ) from None
    return given


def _returned(factory: Callable[..., Any], path: str, given: Mapping[str, Any]) -> Any:
    try:
        return factory(**given)
    except (Exception, SystemExit) as error:
        raise SchemaError(
            f"{path} failed ({one_line(error)}); correct it or its parameters"
        ) from None


def _learner(made: Any, path: str, several: bool, trust_pickle: bool) -> Learner:
    """What a factory returned, as a learner. The configuration alone decides about pickles."""
    if isinstance(made, type):
        raise SchemaError(f"{path} returned the class {made.__name__}, not an object; {EXPECTED}")
    if isinstance(made, Learner) and made.classes:
        raise SchemaError(f"{path} returned a model that has learned already; {EXPECTED}")
    if isinstance(made, RiverClassifier):
        made = made.model
    if isinstance(made, Learner):
        for part in made.with_parts():
            if isinstance(part, RiverClassifier):
                part.trust_pickle = trust_pickle
        return made
    if isinstance(made, base.Regressor):
        raise SchemaError(
            f"{path} returned a regressor, {type(made).__name__}, and headwater predicts classes; "
            f"{EXPECTED}"
        )
    if not isinstance(made, base.Classifier):
        what = f"a {type(made).__name__}" if isinstance(made, base.Base) else shown(made)
        raise SchemaError(f"{path} returned {what}, which is no classifier; {EXPECTED}")
    if several:
        from stream.compat.transformers import one_vs_rest  # with much of river, and so of scipy

        made = one_vs_rest(made)
    return RiverClassifier(made, trust_pickle, _described(made))


def _described(model: base.Classifier) -> str:
    """A hash of the classes of a model and of their parameters, as far as its repr shows them."""
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(model))  # of functions, another in each process
    return hashlib.sha256(text.encode()).hexdigest()[:16]

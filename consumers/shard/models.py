"""From [model] or a [[challenger]] to a learner, with its parameters and bounds checked.

Rule: a parameter must have the type that its class declares. Otherwise the configuration is refused
and the parameter named, because a learner would read "true" as true, or fail with an unclear error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from consumers.base.errors import ConfigError
from consumers.config import Config
from consumers.config.auto import (
    DEFAULTS,
    OF_KEYS,
    PER,
    Defaults,
    learner_type,
    resolved,
)
from consumers.config.learner import (
    PYTHON,
    BinsConfig,
    ChallengerConfig,
    LearnerConfig,
    ModelConfig,
)
from consumers.config.load import message
from consumers.shard.factory import made_by_code
from stream.compat import RIVER, RiverClassifier, build_river
from stream.data.schema import Schema
from stream.errors import NotSupportedError, SchemaError
from stream.keyed import PerKeyNB
from stream.learner.base import Learner
from stream.learner.registry import learners
from stream.mix import byte_parts, mixing, mixing_parts
from stream.preprocessing import Discretized

__all__ = [
    "build",
    "build_model",
    "challenging",
    "check_able",
    "check_fields",
    "explainable",
    "limited",
    "mixed",
    "mixing_types",
    "one_vs_rest",
    "two_classes_only",
    "unused",
]

MOST_NAMES = 10  # of fields in one line


def unused(model: LearnerConfig, schema: Schema, defaults: Defaults = DEFAULTS) -> str | None:
    """A message about fields that the learner does not use; None if it uses all.

    Examples
    --------
    >>> schema = Schema.of(age="numeric", job="categorical", region="categorical")
    >>> unused(ModelConfig(type="GaussianBayes"), schema)
    'GaussianBayes does not use job, region (categorical)'
    """
    if model.type.startswith((RIVER, PYTHON)):
        return None  # only its own code knows which fields it uses
    name, _ = resolved(model, defaults)
    left: dict[str, list[str]] = {}
    for field in schema.fields:
        if field.kind not in learners()[name].kinds:
            left.setdefault(field.kind, []).append(field.name)
    named = [f"{_listed(names)} ({kind})" for kind, names in left.items()]
    return f"{learner_type(model, defaults)} does not use {', '.join(named)}" if named else None


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def build(
    model: LearnerConfig, defaults: Defaults = DEFAULTS, classes: int | None = None
) -> Learner:
    """The empty learner that [model] or a [[challenger]] describes.

    Parameters
    ----------
    defaults
        Those of the journal. By default those of this version.
    classes
        For a challenger, how many classes [model] can learn.

    Raises
    ------
    ConfigError
        The model has no such parameter, cannot use it, or has no memory for two classes.
    """
    several = one_vs_rest(model, classes)
    try:
        if model.type.startswith("river:"):
            return _river(model, several)
        if model.type.startswith(PYTHON):
            return made_by_code(model, several)
        type_, parameters = resolved(model, defaults)
        parameters = {
            name: _with_river(model, value, several) for name, value in parameters.items()
        }
        kind = learners()[type_]
        known = list(inspect.signature(kind).parameters)
        for name in parameters:
            if name not in known:
                near = get_close_matches(name, [*known, *type(model).model_fields], n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
                if name == PER:
                    hint = f'a model for each key is type = "{OF_KEYS}"'
                raise SchemaError(f"no parameter {name!r}; {hint}")
        _check_types(kind, parameters)
        learner = cast("Callable[..., Learner]", kind)(**parameters)
        if model.bins is not None:
            learner = _after_bins(model.bins, learner)
    except (TypeError, AttributeError, SchemaError) as error:
        raise ConfigError(f"{_where(model)}: {error}") from None
    if isinstance(model, ModelConfig):
        _check_room(model, learner)
    return learner


def _after_bins(bins: BinsConfig, learner: Learner) -> Learner:
    """Put the bins before the learner. SchemaError if it does not learn categories."""
    if learner.strings != "categorical":
        raise SchemaError(
            "bins need a learner of categories, such as CategoricalNB or MixedNB; remove bins or "
            "choose one"
        )
    return Discretized(bins.binner(), learner)


def mixed(model: LearnerConfig, learner: Learner, shard: int, shards: int) -> Learner:
    """The empty learner of a model that mixes with those of other shards.

    Raises
    ------
    ConfigError
        No part of [model] merges exactly. A [[challenger]] of which no part does learns alone.
    """
    try:
        return mixing(learner, shard, shards)
    except NotSupportedError:
        if isinstance(model, ChallengerConfig):
            return learner
    if isinstance(learner, Discretized) and learner.discretizer.learns:
        why = "bins that are learned do not merge; give bins fixed edges, or remove mix"
        raise ConfigError(f"[scale] mix: {_where(model)}: {why}")
    fades = " with half_life" if model.parameters.get("half_life") is not None else ""
    raise ConfigError(
        f"[scale] mix: {_where(model)}{fades} does not merge exactly, so the shards cannot "
        "exchange what it has learned; remove mix, or choose a naive or full Bayes model without "
        "half_life"
    )


def build_model(config: Config, defaults: Defaults = DEFAULTS, shard: int = 0) -> Learner:
    """`build` of [model], which mixes if the shards do. ConfigError if it cannot."""
    learner = build(config.model, defaults)
    if config.scale.mix is None:
        return learner
    return mixed(config.model, learner, shard, config.scale.shards)


def mixing_types(learner: Learner) -> list[str]:
    """The types of its parts that mix."""
    return [type(part.learner).__name__ for part in mixing_parts(learner)]


def check_fields(model: LearnerConfig, schema: Schema) -> None:
    """ConfigError if edges or a distribution are given for a field that is not numeric, or if the
    field of the key is not categorical."""
    edges = (model.bins and model.bins.edges) or {}
    given = (
        {} if model.type.startswith((RIVER, PYTHON)) else model.parameters.get("distributions", {})
    )
    if given and model.bins is not None:
        raise ConfigError(
            f"{_where(model)}: with bins every number is a category, so distributions apply to no "
            "field; remove bins or distributions"
        )
    numbers = [field.name for field in schema.fields if field.kind == "numeric"]
    for what, named, known in (
        ("bins edges", edges, list(schema.numeric)),
        ("distributions", given, numbers),
    ):
        for name in sorted(set(named) - set(known)):
            raise ConfigError(
                f"{_where(model)}: {what}: {name!r} is not a numeric field of [features]; "
                f"the numeric ones are {_listed(known) or 'none'}"
            )
    fields = (
        () if model.type.startswith((RIVER, PYTHON)) else _key_fields(*resolved(model, DEFAULTS))
    )
    for per in fields:
        if per not in schema.categorical:
            kind = next((field.kind for field in schema.fields if field.name == per), None)
            hint = f'it is {kind}; declare it as "categorical" there'
            if kind is None:
                others = _listed(list(schema.categorical)) or "none"
                hint = f'declare it as "categorical" there, or name another one: {others}'
            raise ConfigError(
                f"{_where(model)}: per: {per!r} is not a categorical field of [features]; {hint}"
            )


def _key_fields(type_: str, parameters: Mapping[str, Any]) -> Iterator[str]:
    """The field of the key of each `PerKeyNB` in a model, and in its experts."""
    if type_ == OF_KEYS:
        yield parameters.get(PER, PerKeyNB().per)
    for value in parameters.values():
        for each in value if isinstance(value, list | tuple) else [value]:
            inner = {"type": each} if each == OF_KEYS else each
            if isinstance(inner, Mapping) and isinstance(inner.get("type"), str):
                rest = {name: v for name, v in inner.items() if name != "type"}
                yield from _key_fields(inner["type"], rest)


def challenging(
    challenger: ChallengerConfig,
    classes: int,
    corrections: bool,
    schema: Schema | None = None,
    defaults: Defaults = DEFAULTS,
    of: tuple[int, int] | None = None,
) -> Learner:
    """The empty learner of a [[challenger]] to a model of `classes` classes.

    Parameters
    ----------
    schema
        The fields, by which its memory is bounded. None: no bound.
    defaults
        See `build`.
    of
        Number of the shard and number of shards, if they mix.

    Raises
    ------
    ConfigError
        It cannot be built, cannot hold the classes, or cannot unlearn although corrections need it.
    """
    learner = build(challenger, defaults, classes)
    if of is not None:
        learner = mixed(challenger, learner, *of)
    if schema is not None:
        check_fields(challenger, schema)
        _limit(challenger, learner, classes, schema)
    needed, given = classes * getattr(learner, "bytes_per_class", 0), challenger.max_state_bytes
    if given is not None and given < needed:
        raise ConfigError(
            f"{_where(challenger)}: max_state_bytes = {given:,} is too little for the {classes} "
            f"classes of [model], which need {needed:,}; raise or remove it"
        )
    if learner.max_classes < classes:
        raise ConfigError(
            f"{_where(challenger)} holds {learner.max_classes} classes, [model] {classes}; give it "
            "more, or [model] fewer under a new name for the service"
        )
    if corrections and not learner.can_correct:
        raise ConfigError(
            f"{_where(challenger)} cannot unlearn a label, and [labels] corrections asks for it; "
            "choose a model that can, such as auto"
        )
    return learner


def _where(model: LearnerConfig) -> str:
    name = f"[[challenger]] {model.name}:" if isinstance(model, ChallengerConfig) else "[model]"
    return f"{name} {OF_KEYS if PER in model.parameters and model.type == 'auto' else model.type}"


def _check_types(kind: type[Learner], parameters: dict[str, Any]) -> None:
    """SchemaError unless each parameter has the type that the class declares."""
    declared = get_type_hints(cast("Any", kind).__init__)
    for name, value in parameters.items():
        # Strict validation accepts an integer for a float, and no other conversion.
        adapter = TypeAdapter(declared[name], config=ConfigDict(strict=True))
        try:
            adapter.validate_python(value)
        except ValidationError as error:
            # Of several errors report the deepest one: about a value, not about its table.
            detail = max(error.errors(include_url=False), key=lambda found: len(found["loc"]))
            where = " ".join(str(key) for key in (name, *detail["loc"]) if key != "[key]")
            raise SchemaError(f"{where}: {message(detail)}") from None


def _limit(
    challenger: ChallengerConfig,
    learner: Learner,
    classes: int,
    schema: Schema,
) -> None:
    """Bound its memory. Without a configured bound, use as many GiB as its classes need."""
    given = challenger.max_state_bytes
    for most in [given] if given is not None else [2**30 << n for n in range(11)]:
        try:
            fit = learner.restarted(proven=True).limit(most, schema, classes)
        except SchemaError:
            fit = 0
        if fit == classes:
            learner.limit(most, schema, classes)
            return
    raise ConfigError(
        f"{_where(challenger)}: max_state_bytes = {most:,} is too little for the {classes} classes "
        "of [model] on these fields; raise or remove it"
    )


def limited(model: ModelConfig, learner: Learner, schema: Schema) -> int:
    """Bound the memory of a learner. Returns how many classes the two limits of [model] allow.

    Raises
    ------
    ConfigError
        Two classes do not fit.
    """
    try:
        return learner.limit(
            model.max_state_bytes, schema, min(model.max_classes, learner.max_classes)
        )
    except SchemaError as error:
        parts = mixing_parts(learner)
        shared = f" ([scale] mix divides it by {byte_parts(parts[0].shards)})" if parts else ""
        raise ConfigError(
            f"[model] max_state_bytes = {model.max_state_bytes:,}{shared} is too little: {error}; "
            "raise it"
        ) from None


def _check_room(model: ModelConfig, learner: Learner) -> None:
    """ConfigError if the tables of tokens of two classes do not fit."""
    size = int(getattr(learner, "bytes_per_class", 0))
    if size and (fit := model.max_state_bytes // size) < 2:
        raise ConfigError(
            f"[model] max_state_bytes = {model.max_state_bytes:,} holds {fit} classes of "
            f"{size:,} bytes; {model.type} needs at least {2 * size:,}"
        )


def explainable(learner: Learner) -> bool:
    """Whether the learner can explain a prediction by features."""
    return type(learner).explain_rows is not Learner.explain_rows


def check_able(config: Config, learner: Learner) -> None:
    """Check that a learner can explain and unlearn, where the configuration asks for it.

    Raises
    ------
    ConfigError
        It cannot.
    """
    if config.output.explain and not explainable(learner):
        raise ConfigError(
            f"[output] explain: {config.model.type} cannot explain predictions; remove explain"
        )
    if config.labels.corrections and not learner.can_correct:
        raise ConfigError(
            f"[labels] corrections: {_name(learner)} cannot unlearn a label; remove "
            "corrections, or choose a model that can, such as auto"
        )


def _name(learner: Learner) -> str:
    if isinstance(learner, Discretized):
        return f"{type(learner.learner).__name__} after learned bins"
    return type(learner).__name__


def one_vs_rest(model: LearnerConfig, classes: int | None) -> bool:
    """Whether a classifier of river that knows two classes becomes one for each class.

    By the configuration, not by the labels: the kind of a model cannot change in the middle of a
    stream.
    """
    if isinstance(model, ModelConfig):
        return model.max_classes > 2
    return classes is not None and classes > 2


def two_classes_only(learner: Learner) -> list[str]:
    """The classifiers of river in a learner that know two classes and are there once for each."""
    models = [part.model for part in learner.with_parts() if isinstance(part, RiverClassifier)]
    if not models:
        return []
    from stream.compat.transformers import OneVsRest

    last = [getattr(model, "_last_step", model) for model in models]
    return [type(model.classifier).__name__ for model in last if isinstance(model, OneVsRest)]


def _with_river(model: LearnerConfig, value: Any, several: bool) -> Any:
    """A parameter with the seed and the trust of [model] in each expert of river."""
    if isinstance(value, list | tuple):
        return [_with_river(model, each, several) for each in value]
    if isinstance(value, str) and value.startswith((RIVER, PYTHON)):
        value = {"type": value}
    if not isinstance(value, dict):
        return value
    if str(value.get("type")).startswith(PYTHON):
        raise SchemaError(
            f"an expert cannot be {value['type']!r}; name a function as type of [model] or of a "
            "[[challenger]], and let it make the whole mixture"
        )
    if not str(value.get("type")).startswith(RIVER):
        return {key: _with_river(model, each, several) for key, each in value.items()}
    if "trust_pickle" in value:
        raise SchemaError("trust_pickle is a key of [model], not of an expert; move it there")
    of_model = {"seed": model.seed, **({"every_class": True} if several else {})}
    return {**of_model, **value, "trust_pickle": model.trust_pickle}


def _river(model: LearnerConfig, several: bool) -> Learner:
    name = model.type.removeprefix("river:")
    parameters: dict[str, Any] = dict(model.parameters)
    river = build_river(name, parameters, model.pipeline, model.seed, several)
    return RiverClassifier(river, trust_pickle=model.trust_pickle)

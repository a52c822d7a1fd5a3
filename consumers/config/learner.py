"""[model] and [[challenger]]: the learner, its bins, and the learners that can replace it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from consumers.base.units import finite
from consumers.config.sections import Section, Size
from stream.compat.steps import CLASS_PATH, RIVER, check_steps
from stream.errors import SchemaError
from stream.learner.names import learner_names

if TYPE_CHECKING:
    from stream.preprocessing.binner import Binner

__all__ = [
    "PYTHON",
    "SERVICE_NAME",
    "BinsConfig",
    "ChallengerConfig",
    "LearnerConfig",
    "ModelConfig",
    "PromotionConfig",
    "Trust",
    "accepted_keys",
    "may_pickle",
    "model_types",
    "names_deeper",
    "trusts",
    "uses_code",
    "uses_river",
]


Edges = Annotated[tuple[float, ...], Field(strict=False)]


class BinsConfig(Section):
    """How the numbers of a model are binned."""

    strategy: Literal["mdl", "quantile", "uniform"] | None = None
    n_bins: int | None = None
    edges: dict[str, Edges] | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.edges is not None:
            for key in ("strategy", "n_bins"):
                if getattr(self, key) is not None:
                    raise ValueError(f"edges are fixed, and {key} is for learned bins; remove one")
        try:
            self.binner()
        except SchemaError as error:
            raise ValueError(str(error)) from None
        return self

    def binner(self) -> Binner:
        """An unfitted binner."""
        from stream.preprocessing import Discretizer, MDLDiscretizer

        if self.edges is not None:
            return Discretizer({name: list(edges) for name, edges in self.edges.items()})
        if self.strategy is None or self.strategy == "mdl":
            return MDLDiscretizer(64 if self.n_bins is None else self.n_bins)
        return Discretizer(None, self.strategy, 8 if self.n_bins is None else self.n_bins)


PRESETS = {"spam": "SpamScorer"}  # names of learners by their use
PYTHON = "python:"  # before module and name of a factory
_FACTORY = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"

SERVICE_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$"


def model_types() -> tuple[str, ...]:
    """The values of [model] type, without river's classifiers."""
    return ("auto", *PRESETS, *learner_names())


def _model_type(name: str) -> str:
    name, types = PRESETS.get(name, name), model_types()
    if name in types or re.fullmatch(rf"{RIVER}{CLASS_PATH}|{PYTHON}{_FACTORY}", name, re.ASCII):
        return name
    near = get_close_matches(name, types, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f'expected one of {", ".join(types)}, "river:MODULE.CLASS" or "python:MODULE:FUNCTION", '
        f"got {name!r}{hint}"
    )


def uses_river(model: Mapping[str, Any]) -> bool:
    """Whether a model, as type and parameters, is a classifier of river or has one as an expert.

    Examples
    --------
    >>> uses_river({"type": "Mixture", "parameters": {"experts": ["river:forest.ARFClassifier"]}})
    True
    """
    return model["type"].startswith(RIVER) or _names_river(model.get("parameters", {}))


def uses_code(model: Mapping[str, Any]) -> bool:
    """Whether a model, as type and parameters, is made by Python code of the user."""
    return str(model.get("type")).startswith(PYTHON)


def trusts(modules: Iterable[str], type_: str) -> bool:
    """Whether the module of a `python:` type is one of these, or in a package of them.

    Examples
    --------
    >>> trusts(["shop"], "python:shop.models:make"), trusts(["shop"], "python:shopping:make")
    (True, False)
    """
    module = type_.removeprefix(PYTHON).partition(":")[0]
    return any(module == name or module.startswith(f"{name}.") for name in modules)


def may_pickle(model: Mapping[str, Any]) -> bool:
    """Whether the state of a model, as type and parameters, may have a pickle."""
    return uses_river(model) or uses_code(model)


def _names_river(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(map(_names_river, value))
    return isinstance(value, str) and value.startswith(RIVER)


def names_deeper(parameters: Mapping[str, Any], name: str) -> bool:
    """Whether an expert among these parameters, or one of its experts, has a parameter.

    Examples
    --------
    >>> names_deeper({"experts": [{"type": "PerKeyNB", "per": "shop"}], "alpha": 1}, "per")
    True
    >>> names_deeper({"per": "shop"}, "per")
    False
    """
    left: list[Any] = list(parameters.values())
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            if name in value:
                return True
            value = list(value.values())
        if isinstance(value, list | tuple):
            left.extend(value)
    return False


def accepted_keys(model: Mapping[str, Any]) -> dict[str, Any]:
    """A dumped model without the keys that are not for models of its type."""
    refused = _refused_keys(model)
    return {key: value for key, value in model.items() if key not in refused}


def _refused_keys(model: Mapping[str, Any]) -> set[str]:
    if model["type"].startswith(RIVER):
        return set()
    if uses_code(model):
        return {"pipeline"}
    return {"pipeline"} if uses_river(model) else {"pipeline", "seed", "trust_pickle"}


class Trust(NamedTuple):
    """Names of the challengers whose pickles are loaded, and challengers with a module that may be
    imported for them."""

    pickles: frozenset[str] = frozenset()
    code: frozenset[tuple[str, str]] = frozenset()

    def modules(self, challenger: str) -> tuple[str, ...]:
        """The modules that may be imported for a challenger."""
        return tuple(sorted(module for name, module in self.code if name == challenger))


class LearnerConfig(Section):
    """A learner and its parameters."""

    type: Annotated[str, AfterValidator(_model_type)] = Field(
        default="auto",
        description="The class name of a learner of docs/learners.md, `auto`, `spam` "
        "(`SpamScorer`, for messages in two classes), "
        "`river:MODULE.CLASS` (any classifier of river), or `python:MODULE:FUNCTION` (your own "
        "code, see [howto/river.md](howto/river.md)). Default `auto`, which runs several learners "
        "and three guesses and weighs each by how well it predicted, see docs/learners.md: nobody "
        "can know in advance which one fits. The journal keeps the list of its learners. With "
        "parameters or bins `auto` is `MixedNB`; with `per` it is `PerKeyNB`, a model for each key "
        "([howto/keys.md](howto/keys.md)).",
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        description="Parameters of the learner, by the names in its documentation. They can "
        'also be written beside `type`: `type = "KNNClassifier"`, `window = 5000`. Default '
        "empty: the learner's defaults.",
    )
    bins: BinsConfig | None = Field(
        default=None,
        description="Puts numbers into bins for a learner of categories. `{}` or `{strategy "
        '= "mdl"}`: cut points that separate the classes. `{strategy = "quantile", n_bins = '
        '8}`: 8 bins of equal frequency. `"uniform"`: equal width. `{edges = {age = [18, 30, '
        "65]}}`: fixed edges for the named fields. 2 to 64 bins; by default at most 64 with "
        "`mdl`, else 8. Default none: each learner takes numbers in its own way.",
    )
    pipeline: Annotated[tuple[Any, ...], Field(strict=False)] = Field(
        default=(),
        description="River transformers before the classifier, in order; for `river:` only. A step "
        'is a name, `"preprocessing.StandardScaler"`; a table with `type` and arguments, `{type = '
        '"compose.Select", keys = ["age"]}`; a list of steps one after the other; or `{union = '
        "[…]}`, steps beside each other. See [howto/river.md](howto/river.md). Default empty, "
        "because naive Bayes and trees need no transformer.",
    )
    trust_pickle: bool = Field(
        default=False,
        description="Whether snapshots keep the state of a river model as a pickle; for "
        "`river:` and `python:` only, also as an expert of a `Mixture`. Default off, because "
        "loading a pickle runs the code in it. The state is then rebuilt from the journal at each "
        "start.",
    )
    trust_python: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(),
        description="Modules and packages that may be imported for a `python:` model, such as "
        '`["shop"]` for `python:shop.models:make`. Default empty, because importing a module runs '
        "its code. Only the configuration decides it, never a journal. Keep it while `headwater "
        "relearn` replaces such a model by another type.",
    )
    seed: int = Field(
        default=42,
        ge=0,
        lt=2**32,
        description="Seed of a learner that draws random numbers; for `river:` only, also as an "
        "expert of a `Mixture`, and for a function of `python:` that has an argument `seed`. It is "
        "fixed, so that a replay gives the same bits. Default 42.",
    )

    @model_validator(mode="before")
    @classmethod
    def _beside(cls, given: Any) -> Any:
        """Keys that this section does not know are parameters of the learner."""
        if not isinstance(given, dict):
            return given
        beside = {k: v for k, v in given.items() if k not in cls.model_fields}
        if not beside:
            return given
        named = given.get("parameters", {})
        twice = sorted(beside.keys() & named.keys()) if isinstance(named, dict) else []
        if twice:
            raise ValueError(f"{twice[0]!r} is given twice, beside type and in parameters")
        own = {k: v for k, v in given.items() if k in cls.model_fields}
        return {**own, "parameters": {**named, **beside}} if isinstance(named, dict) else own

    @field_validator("parameters")
    @classmethod
    def _plain(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        for name, value in parameters.items():
            if not finite(value):
                raise ValueError(
                    f"expected a finite number, text, truth value, list or table for {name!r}, "
                    f"got {value!r}"
                )
        return parameters

    @field_validator("pipeline")
    @classmethod
    def _transformers(cls, pipeline: tuple[Any, ...]) -> tuple[Any, ...]:
        try:
            check_steps(pipeline)
        except SchemaError as error:
            raise ValueError(str(error)) from None
        if not finite(list(pipeline)):
            raise ValueError(f"expected finite numbers, texts, lists and tables, got {pipeline!r}")
        return pipeline

    @model_validator(mode="after")
    def _river_only(self) -> Self:
        refused = _refused_keys({"type": self.type, "parameters": self.parameters})
        for key in sorted(refused & self.model_fields_set):
            if uses_code({"type": self.type}):
                raise ValueError(
                    f"{key} is for river: models only, and type is {self.type!r}; make the whole "
                    "pipeline in the code"
                )
            raise ValueError(
                f"{key} is for river models only, and type is {self.type!r}; remove {key}"
            )
        if self.type.startswith(RIVER) and self.bins is not None:
            raise ValueError("bins are not for river models; bin by a transformer in pipeline")
        if self.type.startswith(PYTHON) and self.bins is not None:
            raise ValueError("bins are not for python: models; bin in the code, or choose a type")
        return self


class ModelConfig(LearnerConfig):
    """The learner. Part of the identity, except `trust_pickle` and `trust_python`."""

    max_classes: int = Field(
        default=256,
        ge=2,
        le=1024,
        description="Number of distinct labels that are learned; a record with one more is "
        "a dead letter. Default 256: more is nearly always an id sent as a label. With more "
        "than 2, a river model that knows two classes becomes one for each class.",
    )
    max_state_bytes: Size = Field(
        default=2**30,
        description="Memory that the model can take, in bytes or as `512MiB`. The tables of "
        "as many classes as fit are reserved. Above the remaining bytes new categories and "
        "tokens are not learned, and `headwater_overflow_total` counts them. River models "
        "have no such limit. Default 1 GiB, which leaves room for the rest on a small server.",
    )


class ChallengerConfig(LearnerConfig):
    """A model beside `[model]`, up to 8 of them. It learns and is scored on the same records and
    labels, but publishes no predictions unless it is promoted. Not part of the identity: at the
    next start, a new challenger starts empty, a changed one starts empty too, and a removed one is
    deleted. See [challengers.md](challengers.md)."""

    name: str = Field(
        pattern=SERVICE_NAME,
        description="Name in predictions, metrics and `headwater promote`: up to 100 "
        "letters, digits, `.`, `_` and `-`. No default, because it distinguishes challengers "
        "of one type.",
    )
    max_state_bytes: Size | None = Field(
        default=None,
        description="Memory that it can take, in bytes or as `512MiB`, as for `[model]`. "
        "Default 1 GiB, or more if the classes of `[model]` need more, because it must be "
        "able to learn every class that `[model]` learns.",
    )


class PromotionConfig(Section):
    """When a challenger becomes champion automatically."""

    rule: Literal["off", "e_value"] = Field(
        default="off",
        description="`e_value`: a challenger is promoted at the record at which the "
        "evidence that it is right more often reaches `threshold`, and never while it is "
        "undecided. Default `off`: people choose the champion, by `headwater promote`.",
    )
    threshold: float = Field(
        default=20.0,
        strict=False,
        gt=1,
        le=1e9,
        allow_inf_nan=False,
        description="The e-value that is needed, times the number of challengers. Default "
        "20: a challenger that is no better is promoted in at most one of twenty services, "
        "however long they run.",
    )

"""[model] and [[challenger]]: what learns, and what would be promoted instead."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from consumers.config.bins import Bins
from consumers.config.sections import Section, Size
from consumers.config.units import finite

__all__ = ["OWN_MODELS", "SERVICE_NAME", "Challenger", "Model", "Promotion", "Trained", "spoken"]

_CLASS_PATH = r"[a-z_]\w*(?:\.[a-z_]\w*)*\.[A-Z]\w*"
SERVICE_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$"
AUTO = "MixedNB"  # what "auto" is
OWN_MODELS = (
    "auto",
    "BernoulliNB",
    "CategoricalBayes",
    "CategoricalNB",
    "ComplementNB",
    "GaussianBayes",
    "GaussianNB",
    "KNNClassifier",
    "MixedBayes",
    "MixedNB",
    "MultinomialNB",
)


def spoken(name: str) -> str:
    """[model] type `name` as predictions name it: "auto" says nothing to their reader."""
    return AUTO if name == "auto" else name


def _model_type(name: str) -> str:
    if name in OWN_MODELS or re.fullmatch(rf"river:{_CLASS_PATH}", name, re.ASCII):
        return name
    near = get_close_matches(name, OWN_MODELS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f'expected one of {", ".join(OWN_MODELS)} or "river:MODULE.CLASS", got {name!r}{hint}'
    )


class Trained(Section):
    """What learns: a learner and its parameters."""

    type: Annotated[str, AfterValidator(_model_type)] = Field(
        default="auto",
        description="The class name of a learner of docs/learners.md, `auto`, or "
        "`river:MODULE.CLASS` (any classifier of river). `auto` is `MixedNB`: it takes numbers, "
        "categories, truth values and texts as they are declared, so it fits whatever comes.",
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        description="The learner's own parameters, by their names in its documentation. They may "
        'also stand beside `type`: `type = "KNNClassifier"`, `window = 5000`. Empty: the '
        "learner's defaults.",
    )
    bins: Bins | None = Field(
        default=None,
        description="Numbers become bins, for a learner of categories: `{}` or `{strategy = "
        '"mdl"}` for cuts where the classes differ, `{strategy = "quantile", n_bins = 8}` for 8 '
        'bins of equal weight, `"uniform"` of equal width, `{edges = {age = [18, 30, 65]}}` for '
        "fixed ones of the named fields; 2 to 64 bins, 64 at most by default with `mdl`, else 8. "
        "None: each learner takes numbers as it does.",
    )
    pipeline: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(),
        description='River transformers before the classifier, such as `"preprocessing.'
        'StandardScaler"`; for `river:` only. Empty: naive Bayes and trees need none.',
    )
    trust_pickle: bool = Field(
        default=False,
        description="Whether a river model's state is kept in snapshots as a pickle; for `river:` "
        "only. Off: loading a pickle runs what it contains; the state is then rebuilt from the "
        "journal at start.",
    )
    seed: int = Field(
        default=42,
        ge=0,
        lt=2**32,
        description="Seed of a learner that draws random numbers; for `river:` only. Fixed, so "
        "that a replay gives the same bits; 42 is as good as any.",
    )

    @model_validator(mode="before")
    @classmethod
    def _beside(cls, given: Any) -> Any:
        """Keys that are none of this section's are parameters of the learner."""
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
    def _transformers(cls, pipeline: tuple[str, ...]) -> tuple[str, ...]:
        for name in pipeline:
            if not re.fullmatch(_CLASS_PATH, name, re.ASCII):
                raise ValueError(
                    f'expected transformers such as "preprocessing.StandardScaler", got {name!r}'
                )
        return pipeline

    @model_validator(mode="after")
    def _river_only(self) -> Self:
        if not self.type.startswith("river:"):
            for key in ("pipeline", "trust_pickle", "seed"):
                if key in self.model_fields_set:
                    raise ValueError(
                        f"{key} is for river models only, and type is {self.type!r}; remove {key}"
                    )
        elif self.bins is not None:
            raise ValueError("bins are not for river models; bin by a transformer in pipeline")
        return self


class Model(Trained):
    """What learns. Part of the identity, but for `trust_pickle`."""

    max_classes: int = Field(
        default=256,
        ge=2,
        le=1024,
        description="Distinct labels that are learned; one more is a dead letter. 256: more is "
        "nearly always an id sent as a label.",
    )
    max_state_bytes: Size = Field(
        default=2**30,
        description="Memory the model may take, in bytes or as `512MiB`. The tables of as many "
        "classes as fit are reserved; beyond the rest new categories and tokens are not learned, "
        "and counted in `headwater_overflow_total`. A journal begun before this was so goes on "
        "without it; models of river cannot be bounded. 1 GiB: fits a small server beside the "
        "rest.",
    )


class Challenger(Trained):
    """A model in the shadow of `[model]`, up to 8 of them: each learns and is scored on the very
    same records and labels, and says nothing unless it is promoted. Not part of the identity: a new
    one starts empty at the next start, one that is changed starts anew, one that is removed is
    forgotten. See [challengers.md](challengers.md)."""

    name: str = Field(
        pattern=SERVICE_NAME,
        description="What it is called in predictions, metrics and `headwater promote`; up to 100 "
        "letters, digits, `.`, `_` and `-`. No default: two of one type differ in it.",
    )
    max_state_bytes: Size | None = Field(
        default=None,
        description="Memory it may take, in bytes or as `512MiB`, as for `[model]`. None: 1 GiB, "
        "or more where as many classes as `[model]` takes need it, for it must follow the model.",
    )


class Promotion(Section):
    """When a challenger becomes champion without being told to."""

    rule: Literal["off", "e_value"] = Field(
        default="off",
        description="`e_value`: a challenger is promoted at the record at which the evidence that "
        "it is right more often reaches `threshold`. Off: who speaks is a decision of people, by "
        "`headwater promote`, until they say otherwise.",
    )
    threshold: float = Field(
        default=20.0,
        strict=False,
        gt=1,
        le=1e9,
        allow_inf_nan=False,
        description="The e-value that is needed, times the number of challengers. 20: one that is "
        "no better is promoted once in twenty services at most, however long they run.",
    )

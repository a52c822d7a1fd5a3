"""What `auto` is, and what else a configuration leaves open.

Rule: a journal keeps the defaults with which it began. So a later version may have better ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from consumers.config.learner import LearnerConfig
from stream.data.schema import Schema
from stream.mixture.experts import MOST_FIELDS, OF_TEXTS, STACKED

__all__ = [
    "DEFAULTS",
    "OF_KEYS",
    "ON_DISK",
    "PER",
    "Defaults",
    "auto_of",
    "learner_type",
    "resolved",
]

PER, OF_KEYS = "per", "PerKeyNB"  # the parameter with the field of the key, and its learner
ON_DISK = "keys_on_disk"  # another parameter of it
OF_PARAMETERS = "MixedNB"  # what `auto` is with parameters or bins


def auto_of(schema: Schema | None = None) -> dict[str, Any]:
    """What `auto` is for these fields, as type and parameters. None: for fields of any kind, of
    which no category is encoded.

    The last four are for other fields than texts.

    Examples
    --------
    >>> auto_of()["experts"][6]
    {'type': 'KNNClassifier'}
    >>> len(auto_of(Schema.of(body="text"))["experts"])
    5
    """
    mixed = schema is None or any(field.kind != "text" for field in schema.fields)
    experts = [dict(expert) for expert in (STACKED if mixed else STACKED[:OF_TEXTS])]
    mixture = {"type": "Mixture", "experts": experts, "rest": True, "stack": True}
    named = () if schema is None else schema.categorical
    categories = [name for name in named if name.isprintable()][:MOST_FIELDS]
    if not categories:
        return mixture
    return {"type": "TargetEncoded", "fields": categories, "learner": mixture}


class Defaults(NamedTuple):
    """What a configuration leaves open. A journal keeps the defaults with which it began.

    `auto`: type and parameters of the learner for which `auto` stands.
    """

    auto: Mapping[str, Any] = auto_of()


DEFAULTS = Defaults()  # those of this version


def resolved(model: LearnerConfig, defaults: Defaults) -> tuple[str, dict[str, Any]]:
    """Type and parameters of a model. `auto` with parameters or bins is `MixedNB` with them, with
    `per` it is `PerKeyNB`.

    Examples
    --------
    >>> from consumers.config.learner import ModelConfig
    >>> resolved(ModelConfig(parameters={"half_life": 500}), Defaults())
    ('MixedNB', {'half_life': 500})
    """
    if model.type != "auto":
        return model.type, model.parameters
    if PER in model.parameters:
        return OF_KEYS, model.parameters
    if model.parameters or model.bins is not None:
        return OF_PARAMETERS, model.parameters
    given = dict(defaults.auto)
    return given.pop("type"), given


def learner_type(model: LearnerConfig, defaults: Defaults) -> str:
    """The name of a model in predictions: its type, or `auto` if that is several learners."""
    name, _ = resolved(model, defaults)
    return name if model.type != "auto" or name in (OF_PARAMETERS, OF_KEYS) else "auto"

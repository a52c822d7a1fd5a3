"""The challengers of a model: as configured, as journaled, and their learners.

Rule: a journal or a snapshot never decides whether a pickle may be loaded. Only the present
configuration does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from consumers.base.errors import ConfigError
from consumers.config import Config
from consumers.config.auto import Defaults, learner_type
from consumers.config.learner import (
    ChallengerConfig,
    LearnerConfig,
    ModelConfig,
    Trust,
    accepted_keys,
    may_pickle,
    trusts,
    uses_code,
)
from consumers.config.load import message
from consumers.shard.factory import untrusted_code
from consumers.shard.models import challenging
from stream.data.schema import Schema
from stream.learner.base import Learner

__all__ = ["ChallengerSet", "challenger_block", "configured", "trusted"]


@dataclass(frozen=True, slots=True)
class ChallengerSet:
    """The challengers, and the e-value at which one is promoted.

    Parameters
    ----------
    challengers
        Name to configuration, as JSON values.
    threshold
        The e-value for a promotion. None: no challenger is promoted.

    Examples
    --------
    >>> one = {"type": "GaussianNB", "parameters": {}}
    >>> old = ChallengerSet({"a": one, "b": one})
    >>> new = ChallengerSet({"b": one | {"parameters": {"x": 1}}})
    >>> old.gone(new)
    ['a', 'b']
    """

    challengers: Mapping[str, Mapping[str, Any]]
    threshold: float | None = None

    @classmethod
    def empty(cls) -> ChallengerSet:
        """No challengers."""
        return cls({})

    def same(self, other: ChallengerSet) -> bool:
        """Whether both have the same challengers, in any order."""
        gone = self.gone(other) or other.gone(self)
        return not gone and self.threshold == other.threshold

    def gone(self, other: ChallengerSet) -> list[str]:
        """Names that `other` does not have, or has with another configuration."""
        left = other.challengers
        return [
            name
            for name, block in self.challengers.items()
            if name not in left or _text(block) != _text(left[name])
        ]

    def without(self, names: Collection[str]) -> ChallengerSet:
        """The challengers except `names`."""
        left = {name: block for name, block in self.challengers.items() if name not in names}
        return ChallengerSet(left, self.threshold)

    def pickled(self) -> list[str]:
        """Challengers whose saved state may be a pickle."""
        return [name for name, block in self.challengers.items() if may_pickle(block)]

    def coded(self) -> list[str]:
        """Challengers that are made by Python code of the user."""
        return [name for name, block in self.challengers.items() if uses_code(block)]

    def imported(self, trusted: Trust, needed: Collection[str]) -> ChallengerSet:
        """The challengers except those whose code is not trusted.

        Raises
        ------
        ConfigError
            One of these is in `needed`: its predictions may be published.
        """
        untrusted = []
        for name in self.coded():
            type_ = self.challengers[name]["type"]
            if trusts(trusted.modules(name), type_):
                continue
            if name in needed:
                raise ConfigError(f"[[challenger]] {name}: {type_}: {untrusted_code(type_)}")
            untrusted.append(name)
        return self.without(untrusted)

    def types(self, defaults: Defaults) -> dict[str, str]:
        """The type of each challenger, as predictions show it."""
        return {
            name: learner_type(ChallengerConfig.model_validate({**block, "name": name}), defaults)
            for name, block in self.challengers.items()
        }

    def learner(
        self,
        name: str,
        trusted: Trust,
        classes: int,
        corrections: bool,
        schema: Schema | None,
        defaults: Defaults,
        of: tuple[int, int] | None = None,
    ) -> Learner:
        """The empty learner of a challenger.

        Parameters
        ----------
        trusted
            Names of the challengers whose state may be a pickle, or whose code may be imported.
        classes, corrections, schema, defaults, of
            See `consumers.shard.models.challenging`.
        """
        block = {**self.challengers[name], "name": name}
        if name in self.pickled():
            block["trust_pickle"] = name in trusted.pickles
        if name in self.coded():
            block["trust_python"] = trusted.modules(name)
        try:
            challenger = ChallengerConfig.model_validate(block)
        except ValidationError as error:
            found = error.errors(include_url=False)[0]
            raise ConfigError(
                f"[[challenger]] {name}: its journaled configuration is not supported by this "
                f"version: {'.'.join(map(str, found['loc']))}: {message(found)}; run the version "
                "that journaled it, and remove the challenger there"
            ) from None
        return challenging(challenger, classes, corrections, schema, defaults, of)


def configured(config: Config) -> ChallengerSet:
    """The challengers of the configuration."""
    blocks = {challenger.name: challenger_block(challenger) for challenger in config.challenger}
    threshold = config.promotion.threshold if config.promotion.rule == "e_value" else None
    return ChallengerSet(blocks, threshold)


def challenger_block(model: LearnerConfig) -> dict[str, Any]:
    """The part of a model's configuration that decides what it learns."""
    left = {"name", "trust_pickle", "trust_python", "max_classes"}
    if isinstance(model, ModelConfig):
        left.add("max_state_bytes")  # for its own classes; a challenger has those of [model]
    return accepted_keys(model.model_dump(mode="json", exclude=left, exclude_none=True))


def trusted(config: Config) -> Trust:
    """The challengers whose pickles and whose code the configuration trusts."""
    return Trust(
        frozenset(c.name for c in config.challenger if c.trust_pickle),
        frozenset((c.name, module) for c in config.challenger for module in c.trust_python),
    )


def _text(block: Mapping[str, Any]) -> str:
    # As text, because 1, 1.0 and true are equal in Python and different in a configuration.
    return json.dumps(block, sort_keys=True)

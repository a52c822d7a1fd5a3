"""Several configurations as one model and its challengers, for `headwater replay --compare`.

Rule: models are compared on one stream, so all sections except [model] must be equal. Otherwise
the records, the labels or their order would differ too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.shard.challengers import ChallengerSet

__all__ = ["rivals"]


def rivals(paths: Sequence[Path]) -> tuple[Config, ChallengerSet, list[str]]:
    """The first configuration, the models of the others as challengers, and a name for each.

    Raises
    ------
    ConfigError
        They differ in more than [model], or there are too many.
    """
    from consumers.base.errors import ConfigError
    from consumers.config import identity_difference, load
    from consumers.shard.challengers import ChallengerSet, challenger_block
    from stream.contest.champion import MOST

    first, *others = [load(path) for path in paths]
    if len(others) > MOST:
        raise ConfigError(f"--compare takes {MOST + 1} configurations at most, got {len(paths)}")
    for path, other in zip(paths[1:], others, strict=True):
        differ = identity_difference(first.identity(), other.identity())
        more = [line for line in differ if not line.startswith("model.")]
        if more:
            raise ConfigError(
                f"{path} and {paths[0]} differ in more than [model]: {'; '.join(more)}; compare "
                "models on the same records"
            )
    keys = [str(i) for i in range(2, len(paths) + 1)]
    blocks = zip(keys, (challenger_block(other.model) for other in others), strict=True)
    return first, ChallengerSet(dict(blocks)), _short(paths)


def _short(paths: Sequence[Path]) -> list[str]:
    """Their names without the suffix if those differ, else their paths."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]

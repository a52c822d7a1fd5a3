"""Several configurations as models on the same records, for `headwater replay --compare`.

Rule: models are compared on one stream, so all sections except [model] must be equal. Otherwise
the records, the labels or their order would differ too. A model that fails does not stop the
others: its row has the reason, and they start again without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from consumers.commands.file_replay import ReplayOptions
    from consumers.config import Config

__all__ = ["Rival", "compare_file", "rivals"]


@dataclass(slots=True)
class Rival:
    """One of the configurations.

    Parameters
    ----------
    name
        Its name in the results.
    config
        The configuration; None if its [model] is not valid.
    failed
        Why its model failed; None if it did not.
    """

    name: str
    config: Config | None
    failed: str | None = None


def rivals(paths: Sequence[Path]) -> list[Rival]:
    """The configurations, each with a name.

    Raises
    ------
    ConfigError
        They differ in more than [model], there are too many, or one cannot be read.
    """
    from consumers.base.errors import ConfigError
    from consumers.config import identity_difference, load
    from stream.contest import MOST

    if len(paths) > MOST + 1:
        raise ConfigError(f"--compare takes {MOST + 1} configurations at most, got {len(paths)}")
    out: list[Rival] = []
    for path, name in zip(paths, _short(paths), strict=True):
        try:
            out.append(Rival(name, load(path)))
        except ConfigError as error:
            lines = [line.removeprefix(f"{path}: ") for line in str(error).splitlines()]
            if not all(line.startswith("[model]") for line in lines):
                raise
            out.append(Rival(name, None, "; ".join(lines)))
    known = [(p, r.config) for p, r in zip(paths, out, strict=True) if r.config is not None]
    for path, config in known[1:]:
        differ = identity_difference(known[0][1].identity(), config.identity())
        more = [line for line in differ if not line.startswith("model.")]
        if more:
            raise ConfigError(
                f"{path} and {known[0][0]} differ in more than [model]: {'; '.join(more)}; compare "
                "models on the same records"
            )
    return out


def compare_file(models: Sequence[Rival], asked: ReplayOptions) -> dict[str, Any]:
    """Replay a file with every model that does not fail. The results, with a row for each model.

    Raises
    ------
    ConfigError
        Every model failed.
    """
    from consumers.base.errors import ConfigError
    from consumers.commands.file_replay import Entrants, ModelFailedError, replay_file, say

    while standing := [model for model in models if model.failed is None]:
        configs = [model.config for model in standing if model.config is not None]
        entrants = Entrants(configs, [model.name for model in standing], _lost(models))
        try:
            results = replay_file(configs[0], asked, entrants)
        except ModelFailedError as error:
            standing[error.number].failed = error.reason
            left = len(standing) - 1
            again = f"; the other {left} start again" if left else ""
            say(f"headwater: {standing[error.number].name} failed: {error.reason}{again}")
        else:
            order = [model.name for model in models]
            results["challengers"].sort(key=lambda row: order.index(row["name"]))
            return results
    reasons = "; ".join(f"{model.name}: {model.failed}" for model in models)
    raise ConfigError(f"--compare: every model failed: {reasons}")


def _lost(models: Sequence[Rival]) -> list[dict[str, Any]]:
    """The rows of the models that failed."""
    nothing = {"scored": 0, "accuracy": None, "log_loss": None, "against": None}
    return [
        {
            "name": model.name,
            "type": "" if model.config is None else model.config.model.type,
            **nothing,
            "failed": model.failed,
        }
        for model in models
        if model.failed is not None
    ]


def _short(paths: Sequence[Path]) -> list[str]:
    """Their names without the suffix if those differ, else their paths."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]

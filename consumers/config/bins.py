"""[model] bins: numbers as categories, before a learner of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from consumers.config.sections import Section
from stream.errors import SchemaError

if TYPE_CHECKING:
    from stream.preprocessing.binner import Binner

__all__ = ["BinsConfig"]

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

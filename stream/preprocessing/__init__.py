"""Numbers as categories: bins with fixed or learned edges, and learners that use them."""

from typing import TYPE_CHECKING

from stream.lazy import lazy

if TYPE_CHECKING:
    from stream.preprocessing.discretized import Discretized
    from stream.preprocessing.discretizer import Discretizer
    from stream.preprocessing.mdl import MDLDiscretizer
    from stream.quantiles.sketch import QuantileSketch, Span

__all__ = ["Discretized", "Discretizer", "MDLDiscretizer", "QuantileSketch", "Span"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "stream.preprocessing.discretized": ("Discretized",),
        "stream.preprocessing.discretizer": ("Discretizer",),
        "stream.preprocessing.mdl": ("MDLDiscretizer",),
        "stream.quantiles.sketch": ("QuantileSketch", "Span"),
    },
)

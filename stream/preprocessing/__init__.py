"""Numbers as categories: bins with fixed or learned edges, and learners that use them."""

from stream.preprocessing.discretized import Discretized
from stream.preprocessing.discretizer import Discretizer
from stream.preprocessing.mdl import MDLDiscretizer
from stream.preprocessing.sketch import QuantileSketch, Span

__all__ = ["Discretized", "Discretizer", "MDLDiscretizer", "QuantileSketch", "Span"]

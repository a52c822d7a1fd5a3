"""Compiled functions: the decorator, and the kernels that several rooms share."""

from stream.kernel.compiled import kernel

__all__ = ["kernel"]

"""Compiled functions: the decorator, and the kernels that several rooms share."""

from stream.kernel.compiled import inlined, kernel

__all__ = ["inlined", "kernel"]

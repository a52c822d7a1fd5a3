"""Compiled functions: the decorator, and the kernels that several rooms share."""

from stream.kernel.compiled import CompilationWarning, inlined, kernel

__all__ = ["CompilationWarning", "inlined", "kernel"]

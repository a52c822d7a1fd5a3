"""Compiled functions: the decorator, and the kernels that several rooms share."""

from stream.kernel.compiled import CompilationWarning, called, inlined, kernel

__all__ = ["CompilationWarning", "called", "inlined", "kernel"]

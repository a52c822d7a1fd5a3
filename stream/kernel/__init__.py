"""Kernels: the decorators, and the kernels that several rooms share."""

from stream.errors import CompilationWarning
from stream.kernel.tiers import called, inlined, intrinsic, kernel

__all__ = ["CompilationWarning", "called", "inlined", "intrinsic", "kernel"]

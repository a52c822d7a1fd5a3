"""Kernels of nearest neighbours. Each file is self-contained, see its docstring."""

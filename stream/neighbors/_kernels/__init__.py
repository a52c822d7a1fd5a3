"""Kernels of the neighbours; a file is self-contained: see its docstring."""

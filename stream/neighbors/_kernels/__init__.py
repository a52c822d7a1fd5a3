"""Kernels of nearest neighbours."""

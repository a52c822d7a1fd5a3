"""Kernels of the decision tree."""

"""Compiled loops, one file for each family. A kernel calls only kernels of its own file."""

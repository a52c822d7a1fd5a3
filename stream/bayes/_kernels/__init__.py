"""Compiled loops, one file for each family. A kernel calls only functions of kernel files."""

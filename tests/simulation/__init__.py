"""Seeded worlds in which everything fails: one seed is one run, and repeats any failure."""

"""Compiled loops of the linear classifiers."""

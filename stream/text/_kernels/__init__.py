"""Compiled loops of text."""

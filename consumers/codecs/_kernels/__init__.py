"""Compiled loops of the wire formats."""

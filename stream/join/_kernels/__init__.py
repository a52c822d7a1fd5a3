"""Compiled loops of the label join: ids in arrays, and the plan of common events."""

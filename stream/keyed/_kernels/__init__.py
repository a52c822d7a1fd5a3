"""Compiled loops of models for many keys."""

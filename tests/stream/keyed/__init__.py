"""Tests of models for many keys."""

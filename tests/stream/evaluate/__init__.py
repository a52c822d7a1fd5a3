"""Tests of stream/evaluate."""

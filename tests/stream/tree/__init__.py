"""Tests of stream/tree."""

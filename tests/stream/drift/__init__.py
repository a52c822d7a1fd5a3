"""Tests of stream/drift."""

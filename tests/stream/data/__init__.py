"""Tests of stream/data."""

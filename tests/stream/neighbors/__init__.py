"""Tests of stream/neighbors."""

"""Tests of stream/mixture."""

"""Tests of stream/join."""

"""Tests of stream/linear."""

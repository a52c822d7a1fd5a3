"""Tests of stream/preprocessing."""

"""Tests of stream/decision."""

"""Tests of stream/text."""

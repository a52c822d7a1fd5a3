"""Tests of consumers/codecs."""

"""Tests of stream/bayes."""

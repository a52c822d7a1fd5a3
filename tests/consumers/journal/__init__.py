"""Tests of consumers/journal."""

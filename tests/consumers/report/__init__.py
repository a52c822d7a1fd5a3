"""Tests of consumers/report."""

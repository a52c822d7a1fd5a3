"""Tests of consumers/timetravel."""

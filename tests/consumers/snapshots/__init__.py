"""Tests of consumers/snapshots."""

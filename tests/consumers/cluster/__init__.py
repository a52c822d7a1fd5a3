"""Tests of consumers/cluster."""

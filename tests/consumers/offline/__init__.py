"""Tests of consumers/offline."""

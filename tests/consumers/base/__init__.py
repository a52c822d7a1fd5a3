"""Tests of consumers/base."""

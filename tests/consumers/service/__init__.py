"""Tests of consumers/service."""

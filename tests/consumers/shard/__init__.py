"""Tests of consumers/shard."""

"""Copies of a shard's state on disk. They shorten replay and are verified before use."""

"""Copies of a shard's state on disk: a cache that shortens replay, never trusted unverified."""

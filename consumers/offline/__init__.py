"""Replay of a file without a broker: its records, a shard that processes them, its curves."""

"""A file instead of a broker: its records, a shard fed with them, the curve of its scores."""

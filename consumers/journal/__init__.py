"""The journal: its records, the order of what a shard consumed, and reading it back."""

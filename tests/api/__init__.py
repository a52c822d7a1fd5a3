"""The HTTP API, asked by real clients."""

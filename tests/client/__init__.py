"""The client for programs."""

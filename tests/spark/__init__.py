"""Histories that Spark learns."""

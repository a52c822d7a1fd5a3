"""Summaries of the distribution of a number, of bounded size."""

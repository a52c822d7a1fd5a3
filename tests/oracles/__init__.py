"""Slow, obvious twins of what is compiled or clever, written from the formula."""

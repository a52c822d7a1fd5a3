"""Tests: they mirror `stream` and `consumers`."""

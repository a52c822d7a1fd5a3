"""Tests of `consumers/web`."""

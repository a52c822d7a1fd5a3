"""Tests of stream/contest."""

"""Tests of stream/learner."""

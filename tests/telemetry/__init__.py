"""Tests of `consumers/telemetry`."""

"""Measurements, run by hand: `python -m benchmarks.NAME`. Ratios count, not seconds."""

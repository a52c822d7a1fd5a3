"""What `tests/run` does around pytest: environment, checks, kernels, a broker, the day's tests."""

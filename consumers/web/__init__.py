"""The HTTP side: metrics and health. Its thread reads immutable views and never a learner."""

"""The HTTP side: metrics and health. Its thread reads frozen views and never touches a learner."""

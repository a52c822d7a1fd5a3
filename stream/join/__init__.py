"""The delayed-label join: match labels to observations, and derive the steps of a learner."""

"""The delayed-label join: which observation a label is for, and what a learner does with it."""

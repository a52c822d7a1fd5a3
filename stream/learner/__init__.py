"""What a learner is, what it predicts, and how it explains that."""

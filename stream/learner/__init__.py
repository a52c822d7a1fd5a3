"""The interface of learners, their predictions and their explanations."""

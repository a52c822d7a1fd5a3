"""The model at an earlier point in time: rebuild it, repeat a prediction, roll back."""

"""The model at a point in time: rebuild it, repeat a prediction, roll back, learn again."""

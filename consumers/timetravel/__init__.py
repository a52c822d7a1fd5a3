"""The model as it was: a moment rebuilt, a prediction made again, a span cut out."""

"""A champion and its challengers: which model's predictions are published, and the evidence."""

MOST = 8  # the largest number of challengers

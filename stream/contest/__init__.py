"""A champion and its challengers: which model's predictions are published, and the evidence."""

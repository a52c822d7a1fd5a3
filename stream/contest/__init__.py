"""A champion and its challengers: who predicts, and the evidence between them."""

"""How good a model is: progressive validation, scores, baselines."""

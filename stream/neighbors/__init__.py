"""Nearest neighbours in a sliding window."""

from stream.neighbors.knn import KNNClassifier, Neighbor

__all__ = ["KNNClassifier", "Neighbor"]

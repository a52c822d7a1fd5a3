"""Decision trees."""

from stream.tree.decision_tree import DecisionTreeClassifier

__all__ = ["DecisionTreeClassifier"]

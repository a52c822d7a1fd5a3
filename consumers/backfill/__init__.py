"""A model that has learned a history before its service begins."""

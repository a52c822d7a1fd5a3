"""Histories that are learned before a service begins."""

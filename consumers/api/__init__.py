"""Predictions on request and records written over HTTP."""

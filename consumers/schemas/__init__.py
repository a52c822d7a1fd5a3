"""The schema registry: all requests to it are made here."""

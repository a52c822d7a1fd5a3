"""A model for each key, such as a tenant, and what the models of all keys have in common."""

from stream.keyed.per_key import PerKeyNB

__all__ = ["PerKeyNB"]

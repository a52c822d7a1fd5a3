"""A model for each key, such as a tenant, and what the models of all keys have in common."""

from stream.keyed.per_key import PerKeyNB
from stream.keyed.residents import KeyStore, KeysView

__all__ = ["KeyStore", "KeysView", "PerKeyNB", "keys_view"]


def keys_view(learner: object) -> KeysView | None:
    """Where the keys of a learner are; None if it has no keys, or all of them in memory."""
    residents = learner.residents if isinstance(learner, PerKeyNB) else None
    return None if residents is None else residents.view()

"""What the bounds of `headwater_overflow_total` are, as sentences with what to do."""

from __future__ import annotations

__all__ = ["BOUNDS", "explained"]

_ROOM = "remove a field whose values hardly ever repeat, or raise [model] max_state_bytes"

BOUNDS = {
    "classes": "labels of further classes, not learned: raise [model] max_classes",
    "keys": "records of keys without a model of their own, learned for all keys together: lower "
    "[model] max_classes to the number of labels, or raise max_state_bytes or max_keys",
    "entries": f"categories that a key had no room for, learned for all keys together: {_ROOM}",
    "labels": "labels of further classes, not learned: raise [model] max_classes",
    "features": f"features for which the model had no room, not learned: {_ROOM}",
    "fields": f"fields of text for which the model had no room, not learned: {_ROOM}",
    "values": f"categories for which the model had no room, not learned: {_ROOM}",
    "indicators": "categories, words, or pairs of values that were new when the table of weights "
    f"was full; they are no evidence: {_ROOM}",
    "cells": f"combinations of values for which the table had no room, not learned: {_ROOM}",
    "gaussians": f"combinations of categories without a Gaussian of their own: {_ROOM}",
    "tokens": "texts with too many words; the rest of each was not read: shorten them",
    "vocabulary": "words beyond the largest vocabulary, which are no evidence: vocabulary = "
    '"hashed" has no such bound',
    "incomplete": "records without one of the numeric fields, whose covariances were not learned: "
    "another model uses the other fields",
    "binned_features": f"numbers for which there were no bins, left out: {_ROOM}",
    "binned_classes": "classes that were not used to choose bins",
    "reporters": "reporters that were forgotten because there are too many: raise [reporters] "
    "max_reporters",
    "scored_keys": "keys whose scores were removed because too many keys have one: their "
    "records count in all other scores",
    "schemas": "schemas that newer ones replaced, which are asked for again",
    "weights": "weights of labels that this model of river ignores",
}


def explained(bound: str) -> str:
    """What was beyond a bound, and what to do; empty for one that has no sentence.

    Examples
    --------
    >>> explained("classes")
    'labels of further classes, not learned: raise [model] max_classes'
    >>> explained("learn_failures")
    'records at which a model of river failed, left out by it'
    """
    if bound.endswith("_failures"):
        return "records at which a model of river failed, left out by it"
    return BOUNDS.get(bound, "")

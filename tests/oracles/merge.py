"""The slow obvious twin of the merge: look at every head, take the least, again.

Rule: written from the rule in words, never imported by what it checks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

Head = tuple[str, int, int]  # topic, partition, offset


def merge_heads(
    logs: Mapping[tuple[str, int], Sequence[tuple[int, int]]], labels: Collection[str]
) -> list[Head]:
    """The records of whole logs in order.

    `logs` maps (topic, partition) to (offset, timestamp) in offset order. The least head by
    (timestamp, observation before label, topic, partition) goes next.
    """
    left = {partition: list(records) for partition, records in logs.items()}
    out: list[Head] = []
    while any(left.values()):
        heads = [
            (records[0][1], topic in labels, topic, number)
            for (topic, number), records in left.items()
            if records
        ]
        _, _, topic, number = min(heads)
        offset, _ = left[topic, number].pop(0)
        out.append((topic, number, offset))
    return out

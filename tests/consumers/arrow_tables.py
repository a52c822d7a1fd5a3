"""Arrow messages for tests: random tables with oddities, services that read them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from io import BytesIO
from random import Random
from typing import Any

from consumers.base.records import Outgoing
from consumers.codecs.arrow.messages import message_of
from consumers.config import Config, parse
from consumers.transports.protocol import Log
from tests.consumers import feeds
from tests.consumers.conftest import FEATURES, Service
from tests.consumers.feeds import NOW, Labelled

KINDS = ("numeric", "binary", "categorical", "text")


def written(
    table: Any, *, codec: str | None = None, file: bool = False, rows: int | None = None
) -> bytes:
    """The bytes of a table: a stream or a file, in batches of so many rows."""
    import pyarrow as pa

    out, options = BytesIO(), pa.ipc.IpcWriteOptions(compression=codec)
    opened = pa.ipc.new_file if file else pa.ipc.new_stream
    with opened(out, table.schema, options=options) as writer:
        writer.write_table(table, rows)
    return out.getvalue()


def column(random: Random, kind: str, n: int) -> Any:
    """A column for a field of this kind; sometimes with nulls and with values that do not fit."""
    import pyarrow as pa

    share = random.choice([0.0, 0.0, 0.3])

    def some(make: Any) -> list[Any]:
        return [None if random.random() < share else make() for _ in range(n)]

    if random.random() < 0.15:
        kind = random.choice(KINDS)  # as another field would be
    if kind == "numeric":
        odd = random.choice([[], [], [math.inf], [1e300]])
        numbers = some(lambda: random.choice([-0.0, random.gauss(0, 1), math.nan, 1e30, *odd]))
        limit = random.choice([2**53, 2**63 - 1])
        whole = pa.array(some(lambda: random.randint(-limit, limit)), "int64")
        texts = pa.array(some(lambda: random.choice(["NA", "1.5", "x", ""])))
        decimals = pa.array(some(lambda: random.randint(0, 999))).cast(pa.decimal128(25, 2))
        floats = pa.array(numbers)
        return random.choice([floats, floats, floats.cast("float32"), whole, texts, decimals])
    if kind == "binary":
        bits = pa.array(some(lambda: random.random() < 0.5))
        return random.choice(
            [bits, bits.cast("uint8"), pa.array(some(lambda: random.choice([0, 2])))]
        )
    words = pa.array(some(lambda: random.choice(["é", "red", "", "x" * 300, "win {["])))
    if kind == "text":
        return random.choice([words, words.cast("large_string"), words.cast(pa.string_view())])
    codes = pa.array(some(lambda: random.randint(0, 3)), "int16")
    times = pa.array(some(lambda: random.randint(0, 10**12)), pa.timestamp("ms"))
    raw = pa.array(some(lambda: random.choice([b"ok", b"\xff"])))
    plain = [
        words,
        words.dictionary_encode(),
        codes,
        codes.cast("float64"),
        codes.dictionary_encode(),
    ]
    return random.choice([*plain, *plain, times, raw])


def table(random: Random, n: int, kinds: dict[str, str]) -> Any:
    """A table for these fields; a dotted one may be nested. It may lack columns or have others."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for name, kind in kinds.items():
        if random.random() < 0.1:
            continue
        made, (root, _, leaf) = column(random, kind, n), name.partition(".")
        if leaf and random.random() < 0.7:
            nested.setdefault(root, {})[leaf] = made
        else:
            columns[name] = made
    for root, made in nested.items():
        columns[root] = pa.StructArray.from_arrays(list(made.values()), list(made))
    columns["extra"] = pa.array([[1, 2]] * n)
    ids = pa.array([f"i{random.randrange(n)}" for _ in range(n)])
    odd = pa.array([random.choice([None, "", "i" * 600, "a"]) for _ in range(n)])
    large = pa.array([2**63 - 1 - random.randrange(3) for _ in range(n)])
    columns["id"] = random.choice(
        [ids, ids, large, ids.dictionary_encode(), odd, ids.cast("binary")]
    )
    labels = pa.array([random.choice([None, 0, 1]) for _ in range(n)])
    columns["y"] = random.choice([labels, labels.cast("string"), labels.cast("float64")])
    return pa.table(columns)


class ArrowService(Service):
    """A service whose observations are Arrow messages."""

    def config(self, **changes: Any) -> Config:
        """The configuration over Phishing's features."""
        given = {"max_records": 50, "every_records": 300, **changes}
        features = given.pop("features", FEATURES)
        text = feeds.config_text(self.url, features, **given)
        text = text.replace('observations = "obs"', 'observations = "obs"\nformat = "arrow"')
        return parse(text, directory=self.directory)


def in_messages(records: Labelled, sizes: Sequence[int]) -> list[list[dict[str, Any]]]:
    """The observations with ids, in messages of these sizes, repeated."""
    rows = [{"id": str(i), **x} for i, (x, _) in enumerate(records)]
    out: list[list[dict[str, Any]]] = []
    while rows:
        size = sizes[len(out) % len(sizes)]
        out.append(rows[:size])
        rows = rows[size:]
    return out


def fill(log: Log, messages: Sequence[list[dict[str, Any]]], records: Labelled, **how: Any) -> None:
    """Make the topics, and write the messages 10 s apart and the labels of each 25 s later.

    With `alone` each row is a record of JSON with the time of its message.
    """
    alone, partitions = how.get("alone", False), how.get("partitions", 1)
    for topic, count in (("obs", partitions), ("ans", 1), ("svc-predictions", partitions)):
        log.create_topic(topic, count)
    for topic in ("svc-dead-letters", "svc-journal"):
        log.create_topic(topic, 1)
    out, labels = [], []
    for k, rows in enumerate(messages):
        at, number = NOW + 10_000 * k, k % partitions
        values = [json.dumps(row).encode() for row in rows] if alone else [message_of(rows)]
        out += [Outgoing("obs", None, value, at, (), number) for value in values]
        for row in rows:
            label = json.dumps({"id": row["id"], "label": records[int(row["id"])][1]}).encode()
            labels.append(Outgoing("ans", None, label, at + 25_000, (), 0))
    log.append([*out, *labels])

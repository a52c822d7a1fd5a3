"""The records of a world: observations in its format, and their labels, late, early or never.

Some records are broken, by the thousandth of a second they are in the order of their times, and one
seed is one feed. An id has one partition in both topics.
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from io import StringIO
from math import inf
from random import Random
from typing import Any, NamedTuple

from consumers.base.records import Outgoing
from consumers.codecs.format import framed
from consumers.schemas.translate import Translator
from consumers.transports.placement import partition_of
from tests.consumers.feeds import BAD_LABELS, GARBAGE, NOW
from tests.worlds.features import RAW, SCHEMAS
from tests.worlds.services import LABELS, OBSERVATIONS, Setting, sent_fields

__all__ = ["Records", "schemas_of"]

STEP = 10  # ms between two observations
AHEAD = 60  # labels come at most so many observations later, or earlier
ROWS = 5  # of an Arrow message
TEXT = "\0"  # no field: the words of a mail or text
WORDS = {
    "spam": ["win", "free", "money", "offer", "click", "prize", "now"],
    "ham": ["lunch", "meeting", "report", "see", "you", "tomorrow", "now"],
    "other": ["ticket", "train", "flight", "delayed", "gate", "now"],
}
BEYOND: dict[str, dict[str, Any]] = {  # values that do not fit, where each has its type
    "arrow": {"visits": inf},
    "avro": {"visits": inf},
    "json_schema": {},
    "protobuf": {"visits": "Infinity"},
}
BROKEN = {"few": 0.04, "many": 0.25, "missing": 0.04}


class _Made(NamedTuple):
    """The id of an observation, and its document or the bytes of a broken one."""

    id: str
    what: dict[str, Any] | bytes | None


class Records:
    """All records of a world.

    Parameters
    ----------
    setting
        The service.
    count
        Of observations.
    seed
        Of all that is drawn.

    Attributes
    ----------
    ids : dict
        By partition, for each observation the ids of its rows; none of a broken one.
    """

    def __init__(self, setting: Setting, count: int, seed: int) -> None:
        self._setting, self._count = setting, count
        self.ids: dict[int, list[list[str]]] = {}
        self._choice, self._random = setting.choice, Random(f"records {seed}")
        self._fields = sent_fields(self._choice)
        self._partitions = setting.partitions
        self._keyed = setting.choice["shards"] != "1" or setting.choice["command"] == "reshard"
        # Many of them in the first records would be taken for ids.
        self._tenants = 30 if self._choice["fields"] == "declared" else 5
        self._translator = Translator(setting.config())
        two = self._choice["learner"] == "spam" or self._choice["join"] == "silence"
        self._classes = ["spam", "ham"] if two else ["spam", "ham", "other"]

    def all(self) -> list[Outgoing]:
        """In the order of their times."""
        rows = [self._row(i) for i in range(self._count)]
        made = [(NOW + STEP * i, self._observation(i, *row)) for i, row in enumerate(rows)]
        out = list(self._messages(made))
        if self._choice["labels"] != "inside":
            out += self._labels([label for _, _, label in rows])
        return sorted(out, key=lambda record: record.timestamp or 0)

    def file(self) -> str:
        """The same as CSV, each label in the line of its observation."""
        out, names = StringIO(), [*self._fields]
        lines = csv.writer(out)
        lines.writerow(["id", *names, "label"])
        for i in range(self._count):
            x, _, label = self._row(i)
            if self._random.random() < BROKEN[self._choice["bad"]]:
                x = self._wrong(x)
            known = "" if self._random.random() < 0.1 else label
            lines.writerow([str(i), *(x.get(name, "") for name in names), known])
        return out.getvalue()

    # One observation.

    def _row(self, i: int) -> tuple[dict[str, Any], str, str]:
        """Its features, a text, and its class; the first two change places in the middle."""
        random = self._random
        known = self._classes if i > self._count // 3 else self._classes[:2]
        label = random.choices(known, [5, 5, 2][: len(known)])[0]
        as_if = label
        if i > self._count // 2 and label != "other":
            as_if = "ham" if label == "spam" else "spam"
        place = ["spam", "ham", "other"].index(as_if)
        every = {
            "amount": round(abs(random.gauss(3 * place + 1, 1)), random.choice((1, 15))),
            "visits": float(random.randrange(4) + 2 * place),
            "urgent": random.random() < (0.8, 0.2, 0.5)[place],
            "country": random.choice(("DE", "FR", "US", "ß", "")[place:]),
            "tenant": f"t{int(self._tenants * random.random() ** 2)}",
            "body": (text := " ".join(random.choices(WORDS[as_if], k=random.randint(0, 8)))),
        }
        x = {name: every[name] for name in self._fields}
        for name in [name for name in x if random.random() < 0.05]:
            del x[name]
        return x, text, label

    def _observation(self, i: int, x: dict[str, Any], text: str, label: str) -> _Made:
        """What is encoded, or the bytes of a broken one."""
        random, id_ = self._random, f"i{i}"
        if self._choice["labels"] == "inside" and random.random() < 0.9:
            x = {**x, "label": self._told(label)}
        if random.random() < 0.02:
            id_ = f"i{random.randrange(i + 1)}"  # it was there before
        if random.random() < (0.15 if self._choice["bad"] == "missing" else 0.02):
            x = self._wrong(x)
        if random.random() < BROKEN[self._choice["bad"]]:
            return _Made(id_, self._garbage(i))
        return _Made(id_, {**x, TEXT: text})

    def _wrong(self, x: dict[str, Any]) -> dict[str, Any]:
        """With a value that does not fit its kind."""
        name = self._random.choice([n for n in self._fields if n != "body"])
        if self._choice["format"] in BEYOND:
            return {**x, **BEYOND[self._choice["format"]]}
        wrong = {"numeric": "much", "binary": 7, "categorical": 1.5}[self._fields[name]]
        return {**x, name: wrong}

    def _garbage(self, i: int) -> bytes | None:
        random, kind = self._random, self._choice["format"]
        if kind in RAW:
            return random.choice(
                (None, b"caf\xe9", b"x" * (2**20 + 1)) if kind == "text" else (None,)
            )
        if kind in SCHEMAS:
            whole = self._translator.record(self._topic(OBSERVATIONS), {"id": f"i{i}"})
            return random.choice((None, b"", whole[:-1], whole[:3], framed(4711, whole[5:])))
        return random.choice(GARBAGE)

    # Records of a topic.

    def _topic(self, which: str) -> str:
        return f"{self._setting.name}-{which}"

    def _place(self, id_: str) -> int:
        return partition_of(id_.encode(), self._partitions)

    def _messages(self, made: list[tuple[int, _Made]]) -> Iterator[Outgoing]:
        """The observations as records; those of Arrow have several rows."""
        waiting: dict[int, list[dict[str, Any]]] = {}
        for at, (id_, what) in made:
            number = self._place(id_)
            if self._choice["format"] != "arrow" or not isinstance(what, dict):
                yield self._one(at, number, id_, what)
                continue
            rows = waiting.setdefault(number, [])
            rows.append({"id": id_, **what})
            del rows[-1][TEXT]
            if len(rows) >= self._random.randint(1, ROWS):
                yield self._message(at, number, waiting.pop(number))
        for number, rows in waiting.items():
            yield self._message(made[-1][0] + STEP, number, rows)

    def _one(self, at: int, number: int, id_: str, what: dict[str, Any] | bytes | None) -> Outgoing:
        key = id_.encode() if self._keyed or self._choice["format"] in RAW else None
        value = self._encoded(id_, what) if isinstance(what, dict) else what
        header = self._choice["format"] == "header"
        headers = (("ce_id", id_.encode()),) if header else ()
        self._note(number, [id_] if isinstance(what, dict) else [])
        return Outgoing(self._topic(OBSERVATIONS), key, value, at, headers, number)

    def _message(self, at: int, number: int, rows: list[dict[str, Any]]) -> Outgoing:
        key, value = rows[0]["id"].encode(), self._translator.message(rows)
        self._note(number, [row["id"] for row in rows])
        return Outgoing(self._topic(OBSERVATIONS), key, value, at, (), number)

    def _note(self, number: int, ids: list[str]) -> None:
        """Remember the ids of the next record of a partition."""
        self.ids.setdefault(number, []).append(ids)

    def _encoded(self, id_: str, x: dict[str, Any]) -> bytes:
        kind, text = self._choice["format"], x.pop(TEXT)
        if kind == "text":
            return text.encode()
        if kind == "mail":
            return self._mail(text)
        if kind in SCHEMAS:
            return self._translator.record(self._topic(OBSERVATIONS), {"id": id_, **x})
        if kind == "header":
            return json.dumps(x).encode()
        if kind == "field of mail":
            x = {**x, "raw": base64.b64encode(self._mail(text)).decode()}
        return json.dumps({"id": id_, **x}).encode()

    def _mail(self, text: str) -> bytes:
        message = EmailMessage(SMTP)
        message["From"] = f"{self._random.choice(('ann', 'bob', 'win'))}@example.org"
        message["Subject"] = text[:20]
        message.set_content(f"{text}\n")
        return message.as_bytes()

    # Labels.

    def _labels(self, classes: list[str]) -> Iterator[Outgoing]:
        random, early = self._random, self._choice["labels"] == "early"
        for i, label in enumerate(classes):
            if random.random() < 0.08:
                continue  # nobody says
            later = random.randint(-AHEAD, AHEAD // 2) if early else random.randint(0, AHEAD)
            yield self._label(i, f"i{i}", label, later)
            if random.random() < 0.08:  # again, and maybe another one
                other = random.choice([*self._classes, label])
                yield self._label(i, f"i{i}", other, later + random.randint(0, AHEAD))
            if random.random() < 0.04:
                yield self._label(i, f"nobody-{i}", label, later)

    def _label(self, i: int, id_: str, label: str, later: int) -> Outgoing:
        random = self._random
        at = NOW + STEP * max(i + later, 0) + random.randint(1, STEP - 1)
        told: dict[str, Any] = {"id": id_, "label": self._told(label)}
        if random.random() < 0.1:
            told["w"] = 0.5
        if self._choice["join"] == "reporters" and random.random() < 0.95:
            reporter = random.randrange(6)
            told["by"] = f"r{reporter}"
            if reporter == 5:  # always wrong
                told["label"] = "ham" if label != "ham" else "spam"
        topic, kind = self._topic(LABELS), self._choice["format"]
        broken = random.random() < BROKEN[self._choice["bad"]]
        if kind in SCHEMAS:
            value = self._translator.record(topic, told)
            value = random.choice((b"", value[:-1], framed(4711, value[5:]))) if broken else value
        else:
            value = random.choice(BAD_LABELS) if broken else json.dumps(told).encode()
        return Outgoing(topic, id_.encode(), value, at, (), self._place(id_))

    def _told(self, label: str) -> str:
        """Sometimes a label for which there is no room."""
        return "rare" if len(self._classes) == 3 and self._random.random() < 0.01 else label


def schemas_of(setting: Setting) -> dict[str, str]:
    """The schema of each input topic, for a format with schemas; else none."""
    fields = sent_fields(setting.choice)
    if setting.choice["labels"] == "inside":
        fields |= {"label": "categorical"}
    label = {"label": "categorical", "w": "numeric", "by": "categorical"}
    make = {"avro": _avro, "json_schema": _json_schema, "protobuf": _protobuf}
    if setting.choice["format"] not in make:
        return {}
    made = make[setting.choice["format"]]
    topics = {f"{setting.name}-{OBSERVATIONS}": made(fields)}
    if setting.choice["labels"] != "inside":
        topics[f"{setting.name}-{LABELS}"] = made(label)
    return topics


def _avro(fields: dict[str, str]) -> str:
    types = {"numeric": "double", "binary": "boolean"}
    rows: list[dict[str, Any]] = [{"name": "id", "type": "string"}]
    for name, kind in fields.items():
        optional = ["null", types.get(kind, "string")]
        rows.append({"name": name, "type": optional, "default": None})
    return json.dumps({"type": "record", "name": "Row", "fields": rows})


def _json_schema(fields: dict[str, str]) -> str:
    types = {"numeric": "number", "binary": "boolean"}
    kinds = {name: {"type": types.get(kind, "string")} for name, kind in fields.items()}
    every = {"id": {"type": "string"}, **kinds}
    return json.dumps({"type": "object", "properties": every})


def _protobuf(fields: dict[str, str]) -> str:
    types = {"numeric": "double", "binary": "bool"}
    rows = " ".join(
        f"optional {types.get(kind, 'string')} {name} = {number};"
        for number, (name, kind) in enumerate(fields.items(), 2)
    )
    return f'syntax = "proto3"; message Row {{ string id = 1; {rows} }}'

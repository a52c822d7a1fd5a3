"""Records nobody may learn from: each a dead letter, and the model as if it had never come.

Two services read the same good records; one of them also gets every kind of bad record, before,
between and after them, some while it runs. What they know at the end must be the same bits.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest
from river.datasets import Phishing

from consumers.base.errors import REPORTER_REASONS, SCHEMA_REASONS, DeadLetterReason
from consumers.base.records import Outgoing
from consumers.transports import open_log
from stream.data.state import State
from tests.acceptance.conftest import Shell
from tests.acceptance.service import Service
from tests.stores import the_store

GOOD = 200
STEP = 100  # ms from one observation to the next
START = 1_700_000_000_000
CONFIG = """
name = "{name}"
[input]
transport = "sqlite:{name}.db"
observations = "pages"
labels = "answers"
[features]
{features}
[model]
type = "{model}"
max_classes = 2
[http]
port = 0
"""
PAGES = 'is_popular = "numeric"\nlong_url = "numeric"\nage_of_domain = "binary"'
COUNTS = 'body = "text"\nlinks = "numeric"'

# Reason to values; in the labels, ID is an observation whose right label is still to come.
OBSERVATIONS: dict[str, list[bytes]] = {
    "unparsable": [b"{", b"", b"\xff\xfe\x00", b"[1, 2]", b"null", b"[" * 5000, b'{"id": 1,}'],
    "oversize": [b'{"id": "big", "note": "%s"}' % (b"x" * (1 << 20))],
    "no_id": [b'{"is_popular": 1}', b'{"id": "", "is_popular": 1}', b'{"id": [1]}'],
    "wrong_kind": [b'{"id": "k", "is_popular": "1"}', b'{"id": "k", "age_of_domain": 2}'],
    "infinite": [b'{"id": "i", "is_popular": Infinity}', b'{"id": "i", "long_url": -1e999}'],
    "out_of_range": [b'{"id": "o", "is_popular": 1e101}'],
}
LABELS: dict[str, list[bytes]] = {
    "unparsable": [b"yes"],
    "no_id": [b'{"label": "yes"}'],
    "no_label": [b'{"id": "ID"}', b'{"id": "ID", "label": null}'],
    "label_kind": [b'{"id": "ID", "label": 1}', b'{"id": "ID", "label": true}'],
    "max_classes": [b'{"id": "ID", "label": "perhaps"}'],
    "bad_weight": [b'{"id": "ID", "label": "yes", "w": %s}' % w for w in (b"0", b"-1", b'"2"')],
}


def good() -> list[Outgoing]:
    """Pages and, one record later, their labels; some features missing in each of the ways."""
    records = []
    missing: list[Any] = [None, float("nan")]
    for i, (x, y) in zip(range(GOOD), Phishing(), strict=False):
        observation = {"id": f"p{i}", **{k: x[k] for k in ("is_popular", "long_url")}}
        if i % 10:
            observation["age_of_domain"] = x["age_of_domain"]
        if i % 7 == 0:
            observation["long_url"] = missing[i % 2]
        at = START + STEP * i
        label = {"id": f"p{i}", "label": "yes" if y else "no"}
        records.append(Outgoing("pages", None, json.dumps(observation).encode(), at))
        records.append(Outgoing("answers", None, json.dumps(label).encode(), at + STEP - 1))
    return records


def bad(after: int) -> list[Outgoing]:
    """Every bad record, right after observation number `after` and before its label."""
    at = START + STEP * after + 1
    observations = [v for values in OBSERVATIONS.values() for v in values]
    labels = [v.replace(b"ID", b"p%d" % after) for values in LABELS.values() for v in values]
    return [
        *(Outgoing("pages", None, value, at) for value in observations),
        *(Outgoing("answers", None, value, at) for value in labels),
    ]


EACH_TIME = len(bad(0))


@dataclass
class Run:
    """A service in a directory, with its log."""

    shell: Shell
    name: str
    features: str = PAGES
    model: str = "GaussianNB"
    letters: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        text = CONFIG.format(name=self.name, features=self.features, model=self.model)
        self.config = self.shell.write(f"{self.name}.toml", text)
        with self.log() as log:
            for topic in ("pages", "answers"):
                log.create_topic(topic, 1)

    def log(self) -> Any:
        return closing(open_log(f"sqlite:{self.shell.directory / self.name}.db"))

    def send(self, records: list[Outgoing]) -> None:
        """As a sender would, in the order of time."""
        with self.log() as log:
            log.append(sorted(records, key=lambda record: record.timestamp or 0))

    def drain(self) -> None:
        """Let it process what is there."""
        self.shell("run", self.config, "--drain")
        tail = ["tail", f"{self.name}-dead-letters", "--config", self.config]
        lines = self.shell.lines(*tail, "--from-beginning", "--drain", "--envelope")
        self.letters = [json.loads(line) for line in lines]

    def state(self) -> State:
        """What was saved at the end."""
        store = the_store(self.shell.directory / "headwater-state", self.name)
        _, state = next(iter(store.newest(lambda _: None)))
        return state

    def predictions(self) -> list[tuple[Any, ...]]:
        """Everything that was said of the good records; offsets are those of another topic."""
        said = self.shell.values(f"{self.name}.db", f"{self.name}-predictions")
        return [(p["id"], p["prediction"], p["probabilities"], p["ts"]) for p in said]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """One directory for both services."""
    return Shell(tmp_path_factory.mktemp("bad"))


@pytest.fixture(scope="module")
def clean(place: Shell) -> Run:
    """Only the good records."""
    run = Run(place, "clean")
    run.send(good())
    run.drain()
    return run


@pytest.fixture(scope="module")
def dirty(place: Shell) -> Run:
    """The same records, with every bad one twice: waiting at the start, and while it runs."""
    run = Run(place, "dirty")
    records = good()
    run.send([*records[:200], *bad(50)])
    rejected = 'headwater_dead_letters_total{{reason="{}",shard="0"}}'.format
    with Service(run.config, "--shards", "0") as service:
        service.wait_until(lambda: service.metric('headwater_learned_total{shard="0"}') == 100)
        # The 100th label is known; between observation 100 and its label come the others again.
        run.send([records[200], *bad(100)])
        twice = 2 * len(OBSERVATIONS["infinite"])
        service.wait_until(lambda: service.metric(rejected("infinite")) == twice)
        run.send(records[201:])
        service.wait_until(lambda: service.metric('headwater_learned_total{shard="0"}') == GOOD)
        assert service.terminate() == 0
        assert "Traceback" not in service.output
    run.drain()
    return run


def reason(letter: dict[str, Any]) -> str:
    return dict(letter["headers"])["reason"]


CASES = [
    pytest.param(topic, reason, id=f"{topic}-{reason}")
    for topic, kinds in (("pages", OBSERVATIONS), ("answers", LABELS))
    for reason in kinds
]


@pytest.mark.parametrize(("topic", "why"), CASES)
def test_bad_record_is_a_dead_letter_with_its_reason_place_and_bytes(
    dirty: Run, topic: str, why: str
) -> None:
    """As often as it came, from where it came, and byte for byte what came."""
    kinds = OBSERVATIONS if topic == "pages" else LABELS
    sent = {v.replace(b"ID", b"p%d" % after) for v in kinds[why] for after in (50, 100)}
    letters = [
        letter
        for letter in dirty.letters
        if reason(letter) == why and dict(letter["headers"])["topic"] == topic
    ]
    came = dirty.shell.raw("dirty.db", topic)
    kept = dirty.shell.raw("dirty.db", "dirty-dead-letters")

    assert len(letters) == 2 * len(kinds[why])
    for letter in letters:
        headers = dict(letter["headers"])
        assert kept[letter["offset"]] == came[int(headers["offset"])]
        assert kept[letter["offset"]] in sent
        assert headers["partition"] == "0"
        assert headers["detail"]


def test_nothing_else_is_a_dead_letter(dirty: Run, clean: Run) -> None:
    """Missing, null and NaN are no evidence, not faults."""
    assert len(dirty.letters) == 2 * EACH_TIME
    assert clean.letters == []


def test_model_is_the_same_bits_as_without_them(dirty: Run, clean: Run) -> None:
    """Fingerprints of the learner and of its scores."""
    with_them, without = dirty.state(), clean.state()

    assert without.nested("shard").header["counts"]["learned"] == GOOD
    for part in ("learner", "quality"):
        mine, others = (state.nested("machine").nested(part) for state in (with_them, without))
        assert mine.fingerprint() == others.fingerprint()


def test_predictions_of_the_good_records_are_the_same(dirty: Run, clean: Run) -> None:
    """One each, with the same probabilities: the service went on as if nothing had come."""
    said = clean.predictions()

    assert [id_ for id_, *_ in said] == [f"p{i}" for i in range(GOOD)]
    assert dirty.predictions() == said


def test_negative_count_is_a_dead_letter_of_a_model_that_counts(place: Shell) -> None:
    """The record with it is neither predicted nor learned."""
    run = Run(place, "counts", COUNTS, "MultinomialNB")
    bodies = [b'"win cash"', b'"lunch later"']
    records = []
    for i in range(20):
        value = b'{"id": %d, "body": %s, "links": %d}' % (i, bodies[i % 2], -3 if i == 9 else i)
        label = b'{"id": %d, "label": "%s"}' % (i, b"no" if i % 2 else b"yes")
        records.append(Outgoing("pages", None, value, START + STEP * i))
        records.append(Outgoing("answers", None, label, START + STEP * i + 1))
    run.send(records)

    run.drain()

    (letter,) = run.letters
    assert reason(letter) == "negative_count"
    assert letter["value"] == {"id": 9, "body": "lunch later", "links": -3}
    assert [p[0] for p in run.predictions()] == [str(i) for i in range(20) if i != 9]
    assert run.state().nested("shard").header["counts"]["learned"] == 19


def test_every_reason_there_is_has_its_case_here() -> None:
    """A new reason needs a record that shows it. What kills the process, corrections, and records
    with schemas (`tests/consumers/schemas`) or reporters, have tests of their own."""
    reasons = {
        *OBSERVATIONS,
        *LABELS,
        *SCHEMA_REASONS,
        *REPORTER_REASONS,
        "negative_count",
        "crash_poison",
        "correction_rate",
    }

    assert reasons == {r for part in get_args(DeadLetterReason) for r in get_args(part) or [part]}

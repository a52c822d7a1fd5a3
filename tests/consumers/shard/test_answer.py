"""Answers outside the stream: what the service would predict next, from a copy of the model."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from river.tree import HoeffdingTreeClassifier

from consumers.base.errors import RecordError
from consumers.base.records import Partition
from consumers.config.auto import auto_of
from consumers.shard.answer import Answerer, ModelCopies
from stream import MixedNB, SpamScorer
from stream.compat import RiverClassifier
from stream.data.schema import Schema
from stream.decision import BayesDecision, Budget
from stream.mixture.composed import made
from tests.consumers.feeds import NOW, SCHEMA, batch, seen, shard, stream, told

JOURNAL = Partition("svc-journal", 0)
RECORDS = stream(80, seed=9)
LOSSES = {"p": {"q": 1.0, "r": 5.0}, "q": {"p": 1.0, "r": 5.0}, "r": {"p": 1.0, "q": 1.0}}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "numbers": (None, {}),
    "mixed": (MixedNB, {"explain": 3}),
    "auto": (lambda: made(auto_of(SCHEMA)), {}),
    "river": (lambda: RiverClassifier(HoeffdingTreeClassifier()), {}),
    "decision": (MixedNB, {"decision": BayesDecision(LOSSES, reject_loss=0.4)}),
    "budget": (MixedNB, {"budget": Budget("r", 0.2)}),
    "bad values": (MixedNB, {"keep_bad": True, "top": 1}),
    "notes": (MixedNB, {"keep_bad": True, "notes": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_answer_is_the_prediction_that_the_service_writes_next(case: str) -> None:
    """The same JSON but for the position, or a rejection with the same reason."""
    learner, changes = CASES[case]
    machine = shard(learner and learner(), **changes)
    answers = 0
    for n, record in enumerate(RECORDS):
        answer = None
        if record.topic == "obs":
            answerer = Answerer(machine.copied(JOURNAL, n))
            explain = machine.spec.outputs.explain
            asked = answerer.read([record.key], [record.value])  # type: ignore[list-item]
            (answer,) = answerer.answer(asked, record.timestamp, explain=explain)
        outcome = machine.process(batch([record]), NOW)
        if isinstance(answer, bytes):
            (made_then,) = outcome.predictions()
            found, expected = json.loads(answer), json.loads(made_then.value or b"")
            assert found.pop("position") == {"topic": "svc-journal", "partition": 0, "offset": n}
            expected.pop("position")
            assert ("notes" in found) == (0 in asked.seen.bad)
            if not machine.spec.outputs.notes:
                found.pop("notes", None)
            assert found == expected
            answers += 1
        elif isinstance(answer, RecordError):
            ((_, error, _),) = outcome.bad()
            assert (answer.reason, answer.detail) == (error.reason, error.detail)
    assert answers > 50


def test_work_of_others_makes_no_copy_late() -> None:
    """A copy that takes little of the processor, but waits for it, is made as often as another."""
    now, position = 0.0, 0

    def copied() -> Any:
        nonlocal now
        now += 0.3  # of which it takes nothing
        return machine.copied(JOURNAL, position)

    machine = shard()
    copies = ModelCopies(1.0, lambda: now, spent=lambda: 0.0)
    while now < 20.0:
        now, position = now + 0.01, position + 1
        copies.offer(JOURNAL, position, copied)
        assert copies.age <= 1.0
    assert not copies.slow


def test_model_in_arrays_is_copied_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state would sort all features each time. The answers are the same, and stay so."""
    schema = Schema.of(text="text")

    def messages(numbers: range) -> list[Any]:
        text = [("win a prize", "minutes of the meeting")[i % 2] + f" {i}" for i in numbers]
        pairs = zip(numbers, text, strict=True)
        return [
            r for i, t in pairs for r in (seen(str(i), i, text=t), told(str(i), "sh"[i % 2], i))
        ]

    machine = shard(SpamScorer(), schema=schema)
    machine.process(batch(messages(range(20))), NOW)
    values = [json.dumps({"id": "new", "text": "a prize at the meeting"}).encode()]
    with monkeypatch.context() as patch:
        patch.setattr(SpamScorer, "deep_copies", False)
        by_state = machine.copied(JOURNAL, 7)
    with monkeypatch.context() as patch:
        patch.setattr(SpamScorer, "to_state", lambda _: pytest.fail("it was saved"))
        patch.setattr(SpamScorer, "load_state", lambda *_: pytest.fail("it was loaded"))
        copy = machine.copied(JOURNAL, 7)
        first, second = Answerer(copy), Answerer(pickle.loads(pickle.dumps(copy)))
        machine.process(batch(messages(range(20, 40))), NOW)
        found = answered(first, values)

    assert found == answered(Answerer(by_state), values) == answered(second, values)
    assert found != answered(Answerer(machine.copied(JOURNAL, 7)), values)


def test_answers_change_nothing_and_keep_to_their_copy() -> None:
    """The shard learns on, and the copy answers as before."""
    machine = shard(MixedNB())
    machine.process(batch([seen(str(i), i, a=i, b=-i) for i in range(9)]), NOW)
    machine.process(batch([told(str(i), "xy"[i % 2], i) for i in range(5)]), NOW)
    copy, before = machine.copied(JOURNAL, 2), machine.fingerprint()
    value = [seen("new", a=1.5, b=2.0).value or b""]
    first = answered(Answerer(copy), value)

    machine.process(batch([told(str(i), "y", i) for i in range(5, 9)]), NOW)
    learned = machine.fingerprint()

    assert answered(Answerer(copy), value) == first
    assert answered(Answerer(machine.copied(JOURNAL, 3)), value) != first
    assert machine.fingerprint() == learned != before


def answered(answerer: Answerer, values: list[bytes]) -> list[bytes | RecordError]:
    """The answers to observations without keys."""
    return answerer.answer(answerer.read([None] * len(values), values), NOW)


def test_no_records_have_no_answers() -> None:
    """And a model that learned nothing names no class."""
    answerer = Answerer(shard().copied(JOURNAL, 0))
    assert answered(answerer, []) == []
    (one,) = answerer.answer(answerer.read([b"k"], [b'{"a":1}']), NOW, explain=4)
    assert isinstance(one, bytes)
    assert json.loads(one)["prediction"] is None


def test_copies_take_a_bounded_share_of_the_loop() -> None:
    """A slow copy is made rarely, and a model that does not change only once."""
    now, position, begun = 0.0, 0, []

    def copied() -> Any:
        nonlocal now
        begun.append(now)
        now += 0.1
        return machine.copied(JOURNAL, position)

    machine = shard()
    copies = ModelCopies(1.0, lambda: now, spent=lambda: now)
    assert copies.newest is None
    while now < 20.0:
        now, position = now + 0.001, position + 1
        copies.offer(JOURNAL, position, copied)
        assert copies.age <= 0.1 / 0.02 + 0.2
    assert [round(at) for at in begun] == [0, 5, 10, 15]

    now += 60.0
    copies.offer(JOURNAL, position, copied)
    made_then = len(begun)
    for _ in range(100):
        now += 1.0
        copies.offer(JOURNAL, position, copied)
        assert copies.age == 0.0
    assert len(begun) == made_then

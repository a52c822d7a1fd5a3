"""Ctrl-C at each line of `learn_one`: a record is learned whole, or not at all."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import stream
from stream import KNNClassifier
from stream.checks.__main__ import shipped
from stream.checks.streams import Records, records
from stream.errors import InvalidRecordError
from stream.kernel.interrupts import interruptible, uninterrupted
from stream.learner import base, many
from stream.learner.base import Learner
from tests.both_ways import switched

CORE = str(Path(stream.__file__).parent)
MOMENTS = 12  # of a learner with more lines, spread over them


@contextmanager
def pressed(at: int) -> Iterator[list[int]]:
    """Ctrl-C before line `at` that runs in `stream`; how many of them have run."""
    lines = [0]

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(CORE):
            return None
        if event == "line":
            lines[0] += 1
            if lines[0] == at:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


def learned(learner: Learner, given: Records, at: int) -> None:
    learner.learn_one(given.xs[at], given.ys[at], given.ws[at])


def prints_of(model: Learner, given: Records, at: int) -> list[str]:
    """After the record and after each of those that follow."""
    out = []
    for i in range(at, len(given)):
        learned(model, given, i)
        model.predict_proba_one(given.xs[i])
        out.append(model.fingerprint())
    return out


def interrupted(model: Callable[[], Learner], given: Records, most: int) -> int:
    """Compare what follows Ctrl-C at the lines of one record with what follows without it.

    Returns how often Ctrl-C came before its end.
    """
    at = len(given) - 3
    before, whole = model().fingerprint(), prints_of(model(), given, at)
    with pressed(0) as lines:
        learned(model(), given, at)
    came = 0
    for moment in range(1, lines[0] + 1, max(1, lines[0] // most)):
        learner = model()
        try:
            with pressed(moment):
                learned(learner, given, at)
        except KeyboardInterrupt:
            came += 1
        found = learner.fingerprint()
        assert found in (before, whole[0]), f"part of a record after line {moment} of {lines[0]}"
        rest = prints_of(learner, given, at + (found != before))
        assert rest == (whole if found == before else whole[1:]), f"after line {moment}"
    return came


def taught(learner: Learner, given: Records) -> Callable[[], Learner]:
    """Copies of the learner after all but the last three records."""
    for i in range(len(given) - 3):
        learned(learner, given, i)
    if not learner.can_save:
        return lambda: _again(learner.clone(), given)
    state = learner.to_state()
    return lambda: learner.clone().load_state(state)


def _again(learner: Learner, given: Records) -> Learner:
    for i in range(len(given) - 3):
        learned(learner, given, i)
    return learner


@pytest.mark.parametrize("learner", shipped(), ids=lambda learner: type(learner).__name__)
def test_ctrl_c_leaves_no_part_of_a_record(learner: Learner) -> None:
    """Neither of a record like those before, nor of one with a new class and new features."""
    usual = records(learner, 12)
    strange = records(learner, 12)
    strange.ys[-3] = "new"
    strange.xs[-3] = {f"{name}, new": value for name, value in strange.xs[-3].items()}
    for given in (usual, strange):
        assert interrupted(taught(learner.clone(), given), given, MOMENTS) > 0


@pytest.mark.parametrize("name", ["x", None])
@pytest.mark.parametrize(("size", "learned"), [(100, 195), (1000, 65)])
def test_window_is_whole_when_its_records_move(size: int, learned: int, name: str | None) -> None:
    """To the front of the room or into a larger one, with an id or not, and by Python alone."""
    full = KNNClassifier(window=size, n_neighbors=1)
    for i in range(learned):
        full.learn_one({"a": float(i)}, i % 2 == 0, id=i)
    after = deepcopy(full)
    after.learn_one({"a": 200.0}, False, id=name)
    known = [
        (each.fingerprint(), each.neighbors_one({"a": 199.0})) for each in (deepcopy(full), after)
    ]

    def press(moment: int) -> tuple[KNNClassifier, int]:
        model = deepcopy(full)
        with suppress(KeyboardInterrupt), switched(lambda _: True), pressed(moment) as lines:
            model.learn_one({"a": 200.0}, False, id=name)
        return model, lines[0]

    assert full._memory.window.live.stop == full._memory.arrays.label.size  # no room is left
    _, lines = press(0)
    assert lines > 50
    for moment in range(1, lines + 1):
        model, _ = press(moment)
        assert (model.fingerprint(), model.neighbors_one({"a": 199.0})) in known, moment


def test_second_ctrl_c_does_not_wait() -> None:
    """The first one waits for the end of the block."""
    reached = []

    def twice() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            reached.append("first")
            signal.raise_signal(signal.SIGINT)
            reached.append("second")

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert reached == ["first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_ends_a_wait_in_a_block() -> None:
    """What it waits for may take a minute. Blocks within blocks end together."""
    reached = []

    def waits() -> None:
        with uninterrupted(), uninterrupted():
            with interruptible():
                reached.append("wait")
            signal.raise_signal(signal.SIGINT)
            reached.append("noted")
            with interruptible():
                reached.append("never")

    with pytest.raises(KeyboardInterrupt):
        waits()
    assert reached == ["wait", "noted"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture
def as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks run as while their kernels are Python."""
    for file in (base, many):
        monkeypatch.setattr(file, "interpreting", lambda: True)


@pytest.mark.usefixtures("as_python")
def test_ctrl_c_waits_for_few_records_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 mails Python takes ten seconds. The records before Ctrl-C are learned whole."""
    model, few = stream.MixedNB(), stream.MixedNB()
    given, execute = records(model, 40), stream.MixedNB._execute
    few.learn_many(given.xs[: many.PIECE], given.ys[: many.PIECE])

    def press(*args: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        execute(*args)

    monkeypatch.setattr(stream.MixedNB, "_execute", press)
    with pytest.raises(KeyboardInterrupt):
        model.learn_many(given.xs, given.ys)

    assert model.fingerprint() == few.fingerprint()


def test_pieces_of_a_block_have_its_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the first piece alone, where the kernels are machine code after it."""
    for learner in shipped():
        given = records(learner, 14)
        at_once, after_one, apart = learner.clone(), learner.clone(), learner.clone()
        at_once.learn_many(given.xs, given.ys)
        after_one.__dict__["_may_interpret"] = True
        after_one.learn_many(given.xs, given.ys)
        with monkeypatch.context() as patch:
            for file in (base, many):
                patch.setattr(file, "interpreting", lambda: True)
            apart.learn_many(given.xs, given.ys)
            found = apart.predict_proba_many(given.xs)

        assert at_once.fingerprint() == after_one.fingerprint() == apart.fingerprint()
        assert found == at_once.predict_proba_many(given.xs)


@pytest.mark.usefixtures("as_python")
@pytest.mark.parametrize("last", [7, "one more"])
def test_label_that_is_refused_last_leaves_nothing_learned(last: Any) -> None:
    """Of another kind, or of a class too many: as if the kernels were machine code."""
    model = stream.GaussianNB()
    model._classes.bound = 2
    empty = model.fingerprint()
    labels = ["a", "b", "a", "b", "a", "b", "a", last]

    with pytest.raises(InvalidRecordError):
        model.learn_many([{"x": float(i)} for i in range(8)], labels)
    assert model.fingerprint() == empty

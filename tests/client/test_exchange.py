"""What is sent to a service, when it is sent again, what an answer means: without a network."""

from __future__ import annotations

from email.utils import formatdate
from functools import partial

import msgspec
import numpy as np
import pytest

from consumers.api.contract import Problem
from consumers.base.errors import ConfigError, RecordError
from headwater.errors import ServiceError
from headwater.exchange import (
    Pause,
    Reply,
    Request,
    Retries,
    Send,
    conversation,
    prediction_of,
    predictions_of,
    written_of,
)
from headwater.records import Prepared, chunks, prepare_label, prepare_observations

REQUEST = Request("/v1/labels", "write", b"{}", "application/json", None)


class Clock:
    """Seconds that pass only in pauses and sends."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def problem(status: int, **members: object) -> Reply:
    """An answer of a service that refuses."""
    body = msgspec.json.encode(Problem("title", status, "what to do", **members))  # type: ignore[arg-type]
    return Reply(status, {"retry-after": "2"} if status in (429, 503) else {}, body)


def talk(*replies: Reply | str, timeout: float = 30, most: int = 5) -> tuple[bytes, list[float]]:
    """What the conversation returns for these replies, each after a second, and its pauses."""
    clock, pauses, left = Clock(), [], list(replies)
    talk = conversation(
        REQUEST, "http://here", Retries(timeout, most, clock=clock, chance=lambda: 1.0)
    )
    came: Reply | str | None = None
    while True:
        try:
            step = talk.send(came)
        except StopIteration as end:
            assert not left
            return end.value, pauses
        if isinstance(step, Pause):
            pauses.append(step.seconds)
            clock.now += step.seconds
            came = None
        else:
            assert isinstance(step, Send)
            assert 0 < step.seconds <= timeout - clock.now + 0.001
            clock.now += 1
            came = left.pop(0)


@pytest.mark.parametrize("again", [problem(429), problem(503)])
def test_busy_service_is_asked_again_after_the_time_it_names(again) -> None:
    """Retry-After is longer than the first pauses."""
    assert talk(again, again, Reply(202, {}, b"x")) == (b"x", [2.0, 2.0])


def test_lost_connection_is_tried_again_with_growing_pauses() -> None:
    """Also for a write: each record has an id, by which the join recognizes the second one."""
    lost = ["ConnectError: refused"] * 3

    assert talk(*lost, Reply(200, {}, b"x")) == (b"x", [0.1, 0.2, 0.4])


def test_pause_is_spread_and_bounded() -> None:
    """Clients that failed at the same time do not come back at the same time."""
    assert Retries(9, 9, chance=lambda: 0.0).pause(0, "lost") == 0.05
    assert Retries(9, 9, chance=lambda: 1.0).pause(50, "lost") == 5.0


def test_retry_after_may_be_a_date() -> None:
    """Proxies send one; one that cannot be read is no reason to fail."""
    tries = Retries(9, 9, chance=lambda: 0.0)
    later = {"retry-after": formatdate(usegmt=True, timeval=2_000_000_000)}

    assert tries.pause(0, Reply(503, later, b"")) > 1000
    assert tries.pause(0, Reply(503, {"retry-after": "soon"}, b"")) == 0.05


def test_attempts_are_bounded_by_number() -> None:
    """The last answer is the error, in one line."""
    with pytest.raises(ServiceError, match="answered 429: what to do") as caught:
        talk(problem(429), problem(429), most=1)

    assert caught.value.status == 429
    assert caught.value.problem is not None
    assert caught.value.problem.detail == "what to do"


def test_attempts_are_bounded_by_time() -> None:
    """A pause that ends after the timeout is not begun."""
    with pytest.raises(ServiceError, match=r"got none after 2 attempts \(lost\)"):
        talk("lost", "lost", timeout=2.25)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 415, 422, 500, 504])
def test_other_refusals_are_not_repeated(status) -> None:
    """They would be the same, or their records are in the log."""
    with pytest.raises(ServiceError, match=f"http://here answered {status}: what to do"):
        talk(problem(status))


def test_rejected_record_is_the_error_of_the_record() -> None:
    """With the reason of a dead letter."""
    with pytest.raises(RecordError, match="wrong_kind: what to do") as caught:
        talk(problem(422, reason="wrong_kind", index=0))

    assert caught.value.reason == "wrong_kind"


@pytest.mark.parametrize("status", [200 - 1, 301, 404, 502, 599])
def test_answer_of_something_else_is_one_line(status) -> None:
    """A proxy, or another program on the port."""
    with pytest.raises(ServiceError, match=f"answer of headwater from http://here, got {status}"):
        talk(Reply(status, {}, b"<html>\n<body>"))


def test_chunks_have_what_a_service_accepts() -> None:
    """1,000 records, and 1 MiB with their line ends; a larger record is alone."""
    small = [Prepared(str(n), b"{}", None) for n in range(2001)]
    large = [Prepared(str(n), b"x" * 2**19, None) for n in range(3)]

    assert [len(chunk) for chunk in chunks(small)] == [1000, 1000, 1]
    assert [len(chunk) for chunk in chunks(large)] == [1, 1, 1]


def test_chunk_is_sent_before_the_next_one_is_taken() -> None:
    """So a generator of any length needs no memory."""
    taken = []

    def endless():
        while True:
            taken.append(Prepared("a", b"{}", None))
            yield taken[-1]

    next(chunks(endless()))

    assert len(taken) == 1001


def test_observation_without_an_id_gets_one() -> None:
    """Otherwise a repeated request would write two observations that nobody can tell apart."""
    made = list(prepare_observations([{"x": 1}, {"x": 1}], None, None, "id"))

    assert len({record.id for record in made}) == 2
    assert msgspec.json.decode(made[0].value) == {"x": 1, "id": made[0].id}


def test_id_may_be_nested() -> None:
    """By a dotted name, as [input] id."""
    [inside, added] = prepare_observations(
        [{"order": {"no": 7, "n": 1}}, {"order": {"n": 1}}], [None, 8], None, "order.no"
    )

    assert (inside.id, added.id) == ("7", "8")
    assert msgspec.json.decode(added.value) == {"order": {"n": 1, "no": 8}}


def test_values_of_numpy_are_numbers() -> None:
    """As they come from a data frame."""
    import numpy as np

    [made] = prepare_observations(
        [{"x": np.float32(0.5), "n": np.int64(3), "b": np.True_}], [np.int64(7)], None, "id"
    )

    assert made.value == b'{"x":0.5,"n":3,"b":true,"id":7}'


@pytest.mark.parametrize(
    ("xs", "ids", "ts", "error", "words"),
    [
        ([["x"]], None, None, RecordError, "expected a dict of features, got list"),
        ([{"x": object()}], None, None, RecordError, "object is no JSON value"),
        ([{"x": "y" * 2**20}], None, None, RecordError, "oversize"),
        ([{}], [""], None, RecordError, "expected an id as text or an integer, got ''"),
        ([{}], [True], None, RecordError, "got True"),
        ([{"id": 1.5}], None, None, RecordError, "got 1.5"),
        ([{}], ["x" * 513], None, RecordError, "at most 512 characters, got 513"),
        ([{"id": 1}], [2], None, ConfigError, "expected one id, got 2 and 1"),
        ([{}, {}], [1], None, ConfigError, "got 1 for 2"),
        ([{}], None, ["yesterday"], ConfigError, "expected a time since 1970"),
    ],
)
def test_bad_observations_are_one_line(xs, ids, ts, error, words) -> None:
    """Before anything is sent."""
    with pytest.raises(error, match=words) as caught:
        list(prepare_observations(xs, ids, ts, "id"))

    assert "\n" not in str(caught.value)


def test_label_of_nothing_is_refused() -> None:
    """None is what a data frame has for it."""
    with pytest.raises(RecordError, match="no_label"):
        prepare_label(7, None, None, None)  # type: ignore[arg-type]
    with pytest.raises(RecordError, match=r"label_kind: .* got float 1\.0; int\(label\)"):
        prepare_label(7, 1.0, None, None)  # type: ignore[arg-type]
    with pytest.raises(RecordError, match=r"label_kind: .* got list$"):
        prepare_label(7, [1], None, None)  # type: ignore[arg-type]
    assert prepare_label(7, np.int64(1), None, None).value == b'{"id":7,"label":1}'
    with pytest.raises(ConfigError, match=r"\[labels\] reporter is not set"):
        prepare_label(7, 1, None, None, "ann", None)


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b"[1,2", b'{"id": "0"}', b"\xff"])
@pytest.mark.parametrize("read", [prediction_of, partial(written_of, records=[])])
def test_answer_of_another_program_is_an_error_of_the_service(read, body: bytes) -> None:
    """The page of a proxy with status 200."""
    with pytest.raises(ServiceError, match="expected an answer of headwater, got another"):
        read(body)
    with pytest.raises(ServiceError, match="check the URL"):
        predictions_of(body or b"{", 0)

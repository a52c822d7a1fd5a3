"""The loop on real transports: each prediction exactly once, whatever stops it."""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time

import numpy as np
import pytest

from consumers.base.errors import (
    FencedError,
    NoAnswerError,
    RecordsMissingError,
    TransportError,
    UnreadableCodecError,
)
from consumers.base.records import Outgoing, Partition
from consumers.config import parse
from consumers.service import runner
from consumers.service.recovery import sources
from consumers.shard.views import ShardView
from stream import GaussianNB
from stream.evaluate.progressive import progressive
from tests.consumers.feeds import NOW, config_text, feed, fill, phishing
from tests.waiting import PATIENCE

TRANSPORTS = ("memory", "sqlite")


def told(service) -> list[tuple[str, int]]:
    """Id and input offset of each prediction, in order."""
    values = [json.loads(value) for _, _, value in service.predictions()]
    return [(v["id"], v["position"]["offset"]) for v in values]


class Flaky:
    """A log whose owners fail in one call, before or after it had its effect."""

    def __init__(
        self, log, call: str, at: int, *, after: bool, times: int = 1, error=TransportError
    ) -> None:
        self._log, self._call, self._at, self._after = log, call, at, after
        self._left, self._error = times, error
        self.calls = 0

    def __getattr__(self, name: str):
        return getattr(self._log, name)

    def owner(self, *args):
        return FlakyOwner(self, self._log.owner(*args))

    def failing(self, call: str, after: bool) -> None:
        if call != self._call or after != self._after:
            return
        self.calls += 1
        if self.calls >= self._at and self._left:
            self._left -= 1
            raise self._error("expected an answer, none came: look at the broker")


class FlakyOwner:
    """The owner of a `Flaky` log."""

    fenced = ""

    def __init__(self, log: Flaky, owner) -> None:
        self._log, self._owner = log, owner

    def __getattr__(self, name: str):
        call = getattr(self._owner, name)

        def guarded(*args, **kwargs):
            self._log.failing(name, after=False)
            result = call(*args, **kwargs)
            self._log.failing(name, after=True)
            return result

        return guarded


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_drain_predicts_every_observation_once_and_in_order(make_service, kind) -> None:
    """Then it ends by itself, with a snapshot at the journal's end."""
    service = make_service(kind)
    fill(service.log, phishing(400))
    view = service.run()

    assert told(service) == [(str(i), i) for i in range(400)]
    assert (view.observations, view.learned, view.pending) == (400, 400, 0)
    assert int(service.snapshots()[-1].stem.removeprefix("snap-")) == service.ends("svc-journal")[0]


@pytest.mark.parametrize("max_records", [3, 50, 5000])
@pytest.mark.parametrize("partitions", [1, 3])
def test_backlog_of_labels_scores_as_progressive_validation_does(
    make_service, max_records, partitions
) -> None:
    """A whole topic of labels lies ready: still each one comes just before its time."""
    service = make_service()
    data = phishing(800)
    fill(service.log, data, delay=50, partitions=partitions)
    view = service.run(max_records=max_records)
    *_, expected = progressive(data, GaussianNB(), delay=50)

    assert view.quality.classes == expected.classes
    assert np.array_equal(view.quality.confusion, expected.confusion)
    assert view.quality.scores == expected.scores


@pytest.mark.parametrize("kind", TRANSPORTS)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("keep", [True, False], ids=["snapshot", "journal"])
def test_stopped_and_restarted_is_never_stopped(make_service, kind, partitions, keep) -> None:
    """Predictions to the byte and the state to the bit; from snapshots or without any (I2)."""
    data = phishing(500)
    whole, cut = make_service(kind), make_service(kind)
    for service in (whole, cut):
        fill(service.log, data, partitions=partitions)
    whole.run()
    for stop_after in (1, 4, 2):
        cut.run(stop_after=stop_after, every_records=60)
        if not keep:
            shutil.rmtree(cut.directory / "headwater-state")
    assert 0 < len(cut.predictions()) < 500

    view = cut.run(max_records=33)

    assert cut.predictions() == whole.predictions()
    assert cut.fingerprint() == whole.fingerprint()
    assert (view.observations, view.learned) == (500, 500)


def test_stop_finishes_the_commit_in_hand_and_snapshots(make_service) -> None:
    """What Ctrl-C and SIGTERM do: nothing half done, nothing to replay."""
    service = make_service()
    fill(service.log, phishing(300))
    service.run(stop_after=2, every_records=10**9)

    assert service.ends("svc-journal") == [3]
    assert len(service.predictions()) == service.rebuilt().shard.view().predictions
    (path,) = service.snapshots()
    assert path.stem == "snap-00000000000000000003"


def test_stop_before_anything_was_done_is_clean(make_service) -> None:
    """It takes no shard, so it fences nobody."""
    service = make_service()
    fill(service.log, phishing(10))
    stop, journal = runner.threading.Event(), Partition("svc-journal", 0)
    stop.set()
    view = service.runner(stop, lambda *_: None, None).run()

    assert (view, service.predictions()) == (None, [])
    assert service.log.end_offsets([journal]) == {journal: 0}


@pytest.mark.parametrize("after", [False, True], ids=["nothing written", "written"])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_failed_commit_is_recovered_from_and_loses_and_doubles_nothing(
    make_service, after, at
) -> None:
    """The broker did not answer; whether it had written is found out, not guessed (I2)."""
    service, calm = make_service(), make_service()
    for one in (service, calm):
        fill(one.log, phishing(300))
    calm.run()
    flaky = Flaky(service.log, "commit", at + 1, after=after)  # the first one is the identity's
    view = service.run(flaky)

    assert flaky.calls > at + 1
    assert view.observations == 300
    assert service.predictions() == calm.predictions()
    assert service.fingerprint() == calm.fingerprint()


def test_failed_poll_is_recovered_from(make_service) -> None:
    """What was buffered is dropped with the owner and polled again."""
    service = make_service()
    fill(service.log, phishing(300))
    service.run(Flaky(service.log, "poll", 4, after=True))

    assert told(service) == [(str(i), i) for i in range(300)]


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_owner_that_lost_sight_of_the_log_does_not_fence_who_took_over(make_service, kind) -> None:
    """It fails, somebody else takes the shard, and it would start over: it ends instead (I8)."""
    service = make_service(kind)
    fill(service.log, phishing(100))
    successors = []

    class Overtaken(Flaky):
        def failing(self, call: str, after: bool) -> None:
            try:
                super().failing(call, after)
            except TransportError:
                successors.append(service.log.owner("svc", 0, []))
                raise

    with pytest.raises(FencedError, match="another process has taken over"):
        service.run(Overtaken(service.log, "commit", 2, after=False), max_records=20)

    (successor,) = successors
    successor.confirm({})


def test_failure_that_does_not_pass_ends_the_run(make_service, monkeypatch) -> None:
    """After some attempts in a row without a commit; a later start goes on."""
    monkeypatch.setattr(runner, "ATTEMPTS", 2)
    service = make_service()
    fill(service.log, phishing(100))

    with pytest.raises(TransportError, match="look at the broker"):
        service.run(Flaky(service.log, "commit", 2, after=False, times=2))
    service.run()
    assert len(service.predictions()) == 100


def test_service_starts_over_until_the_log_answers(make_service, monkeypatch) -> None:
    """An outage may take more failures than it would give a log that refuses; nothing is lost."""
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.001)
    service, stop, times = make_service(), threading.Event(), 3 * runner.ATTEMPTS
    fill(service.log, phishing(100))
    flaky = Flaky(service.log, "commit", 2, after=False, times=times, error=NoAnswerError)

    def told_all(_: object, view: ShardView) -> None:
        if view.learned == 100:
            stop.set()

    runner.Runner(service.config(), flaky, stop, subscribers=[told_all]).run()

    assert flaky.calls > times
    assert told(service) == [(str(i), i) for i in range(100)]


def test_failures_between_which_the_ownership_was_confirmed_are_not_in_a_row(
    make_service, monkeypatch
) -> None:
    """Days without records must not add up the restarts of a broker."""
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr("consumers.service.pace.CONFIRM_SECONDS", 0.0)
    service, stop = make_service(), threading.Event()
    fill(service.log, phishing(10))

    class Restarted(Flaky):
        def failing(self, call: str, after: bool) -> None:
            super().failing(call, after)
            if call == "confirm" and not after:
                self._left = self.calls % 2 == 0
                if self.calls == 4 * runner.ATTEMPTS:
                    stop.set()

    flaky = Restarted(service.log, "confirm", 1, after=False, times=0)
    runner.Runner(service.config(), flaky, stop).run()

    assert flaky.calls == 4 * runner.ATTEMPTS
    assert len(service.predictions()) == 10


def test_failures_between_which_records_were_committed_are_not_in_a_row(
    make_service, monkeypatch
) -> None:
    """Also where each commit has as many labels as observations."""
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(runner, "ATTEMPTS", 2)
    service = make_service()
    fill(service.log, phishing(100))

    class Restarted(Flaky):
        def failing(self, call: str, after: bool) -> None:
            self._left = self.calls % 2 == 0
            super().failing(call, after)

    flaky = Restarted(service.log, "commit", 2, after=False, times=0)
    service.run(flaky, max_records=30)

    assert flaky.calls > 3 * runner.ATTEMPTS
    assert told(service) == [(str(i), i) for i in range(100)]


def test_run_that_drains_is_dead_where_a_codec_is_missing(make_service) -> None:
    """It fails at once, because codecs are loaded at a start only."""
    service = make_service()
    fill(service.log, phishing(100))
    flaky = Flaky(service.log, "poll", 2, after=False, error=UnreadableCodecError)
    drained = runner.Runner(service.config(), flaky, threading.Event(), drain=True)

    with pytest.raises(UnreadableCodecError):
        drained.run()
    assert drained.health().state == "dead"


def test_run_that_drains_gives_up_where_the_log_does_not_answer(make_service, monkeypatch) -> None:
    """It is to end, and nobody looks at its health."""
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.001)
    service = make_service()
    fill(service.log, phishing(100))
    flaky = Flaky(service.log, "commit", 2, after=False, times=99, error=NoAnswerError)

    with pytest.raises(NoAnswerError):
        service.run(flaky)
    assert flaky.calls == 1 + runner.ATTEMPTS


def test_records_that_are_gone_end_the_second_start_that_needs_them(
    make_service, monkeypatch
) -> None:
    """The first failure may be an old position; a start reads everything from the journal on."""
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.001)
    service = make_service()
    fill(service.log, phishing(100))
    flaky = Flaky(service.log, "commit", 2, after=False, times=99, error=RecordsMissingError)

    with pytest.raises(RecordsMissingError):
        service.run(flaky, max_records=30)
    assert flaky.calls == 3


def test_log_that_never_answered_is_told_at_once(make_service) -> None:
    """No broker: one line now, not five attempts later."""
    service = make_service()
    fill(service.log, phishing(10))
    flaky = Flaky(service.log, "commit", 1, after=False, times=9)

    with pytest.raises(TransportError):
        service.run(flaky)
    assert flaky.calls == 1


def test_loop_that_does_not_turn_is_told_by_health_until_it_does(make_service) -> None:
    """A commit that hangs: /healthz says so once `[http] max_idle` is over, and no longer after."""
    service = make_service()
    fill(service.log, phishing(300))
    states: list[str] = []

    def hung(*_: object) -> None:
        deadline = time.monotonic() + PATIENCE
        while not states and going.health().alive:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        states.append(str(going.health()))

    config = service.config()
    http = config.http.model_copy(update={"max_idle": "300ms"})
    config = config.model_copy(update={"http": http})
    going = runner.Runner(config, service.log, threading.Event(), drain=True, subscribers=[hung])
    going.run()

    assert states[0].startswith(
        "stalled: the loop has made no progress for 0 s, longer than [http]"
    )
    assert "live" in states


def test_second_owner_fences_the_first(make_service) -> None:
    """The first one writes nothing more; together they predict everything once (I8)."""
    service = make_service()
    fill(service.log, phishing(300))
    inputs = sources(service.config(), service.log).inputs
    written = []

    def taken_over(count: int) -> None:
        if count == 3:
            service.log.owner("svc", 0, inputs)
            written.append(service.ends("svc-predictions") + service.ends("svc-journal"))

    with pytest.raises(FencedError, match="another owner has taken it over"):
        service.run(on_commit=taken_over)

    assert service.ends("svc-predictions") + service.ends("svc-journal") == written[0]
    service.run()
    assert told(service) == [(str(i), i) for i in range(300)]


def test_bad_records_become_dead_letters_and_the_run_goes_on(make_service) -> None:
    """With their bytes; a commit holds predictions and dead letters together."""
    service = make_service()
    fill(service.log, phishing(60))
    bad = [b"no json", b'{"id":"i","age_of_domain":1e999}', None]
    service.log.append([Outgoing("obs", b"k", v, NOW + 10**6) for v in bad])
    service.log.append([Outgoing("ans", b"k", b'{"id":"3"}', NOW + 10**6)])
    view = service.run()

    assert [r.value for r in service.records("svc-dead-letters")] == [*bad, b'{"id":"3"}']
    assert view.dead_letters == {"unparsable": 2, "infinite": 1, "no_label": 1}
    assert len(service.predictions()) == 60


def test_last_dead_letter_of_each_reason_is_told_with_its_place(make_service) -> None:
    """Of each commit: the metrics name it as an exemplar."""
    service, newest = make_service(), []
    fill(service.log, phishing(3))
    bad = [b"no json", b'{"id":"i","age_of_domain":1e999}', b"nor this"]
    service.log.append([Outgoing("obs", b"k", v, NOW + 10**6) for v in bad])
    service.runner(
        threading.Event(), lambda event, _: newest.append(event.newest), None, max_records=1000
    ).run()

    place = Partition("obs", 0)
    assert newest == [{"unparsable": (place, 5), "infinite": (place, 4)}]


def test_run_without_labels_only_predicts(make_service) -> None:
    """Labels that never come leave the observations waiting."""
    service = make_service()
    fill(service.log, [])
    service.log.append([r for r in feed(phishing(80), 50) if r.topic == "obs"])
    view = service.run()

    assert (view.predictions, view.learned, view.pending) == (80, 0, 80)
    assert all(json.loads(value)["prediction"] is None for _, _, value in service.predictions())


def test_records_that_come_later_are_consumed_by_the_next_run(make_service) -> None:
    """And by the same rule of order: nothing is read twice."""
    service = make_service()
    data = phishing(200)
    records = list(feed(data, 50))
    fill(service.log, [])
    for half in (records[:100] + records[200:300], records[100:200] + records[300:]):
        service.log.append(half)
        view = service.run()

    assert told(service) == [(str(i), i) for i in range(200)]
    assert (view.learned, view.pending) == (200, 0)


def test_offsets_of_the_group_are_those_of_the_journal(make_service) -> None:
    """For lag tools: committed with the entry."""
    service = make_service()
    fill(service.log, phishing(120))
    service.run(stop_after=2)
    owner = service.log.owner("svc", 0, sources(service.config(), service.log).inputs)

    assert owner.committed() == service.rebuilt().shard.positions
    assert set(owner.committed()) == {Partition("obs", 0), Partition("ans", 0)}


def test_drain_ends_under_a_live_feed(make_service) -> None:
    """At the end the inputs had when it began, however fast more comes."""
    service = make_service()
    fill(service.log, phishing(200))
    ends = service.ends("obs")

    def more(*_) -> None:
        late = Outgoing("obs", b"late", b'{"id": "late"}', timestamp=4 * 10**12)
        service.log.append([late] * 10)

    view = service.run(max_records=20, on_commit=more)

    assert view.observations >= sum(ends)
    assert view.observations < sum(service.ends("obs"))


def test_run_says_what_its_configuration_has_no_word_for(make_service, caplog) -> None:
    """A label without a loss, a field nothing uses, a field that never comes: each once."""
    caplog.set_level(logging.WARNING, logger="headwater")
    service = make_service()
    fill(service.log, phishing(1250))
    more = "[decision]\nlosses = {warn = {Tru = 0, false = 1}, pass = {Tru = 5, false = 0}}"
    text = config_text(service.url, (sorted(phishing(1)[0][0])[0], "adress"), more=more)
    text = text.replace("[model]", 'shape = "categorical"\n[model]')
    for _ in range(2):
        parsed = parse(text, directory=service.directory)
        runner.Runner(parsed, service.log, threading.Event(), drain=True).run()

    label = (
        "label 'true' is not named in [decision] losses, so it does not affect the decision: "
        "add its costs"
    )
    unused = "note features: GaussianNB does not use shape (categorical)"
    absent = [
        f"field {name!r} of [features] has no value in the first 1,024 observations since this "
        "start; check its name"
        for name in ("adress", "shape")
    ]
    assert caplog.messages == [unused, label, *absent, unused]

"""At least once: the model is exact, and what is said again is said byte for byte the same."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from consumers.base.errors import RecordTooLargeError, TransportError
from consumers.base.records import Outgoing
from consumers.commands.past import Past
from consumers.commands.promote import _promote
from consumers.commands.rollback import _cut
from consumers.service.recovery import sources
from consumers.service.runner import CUT_BYTES, Runner
from consumers.snapshots.store import open_store
from consumers.timetravel.moment import moment, rebuild_at
from tests.consumers.feeds import fill, phishing


class Dying:
    """A log whose owner dies after an entry, before or after its outputs, or in their midst."""

    def __init__(self, log, at: int, after: float) -> None:
        self._log, self._at, self._after, self.appends = log, at, after, 0

    def __getattr__(self, name: str):
        return getattr(self._log, name)

    def append(self, records) -> None:
        self.appends += 1
        if self.appends != self._at:
            self._log.append(records)
            return
        self._log.append(records[: int(len(records) * self._after)])
        raise TransportError("killed on purpose")


def configured(service, **changes):
    """The same service with the other guarantee."""
    text = service.config(**changes)
    return text.model_copy(
        update={"commit": text.commit.model_copy(update={"guarantee": "at_least_once"})}
    )


def run(service, log) -> None:
    """Drain, starting over after a death as an orchestrator would."""
    for _ in range(4):
        try:
            Runner(configured(service), log, threading.Event(), drain=True).run()
        except TransportError:
            continue
        return
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("after", [0.0, 0.5, 1.0])
def test_a_death_after_the_entry_repeats_and_loses_nothing(make_service, kind, at, after) -> None:
    """Every prediction of the undisturbed run, and no other, at least once each."""
    whole, cut = make_service(kind), make_service(kind)
    for service in (whole, cut):
        fill(service.log, phishing(300))
    whole.run(max_records=40)
    run(cut, Dying(cut.log, at, after))

    once, said = Counter(whole.predictions()), Counter(cut.predictions())
    assert set(said) == set(once)
    assert max(once.values()) == 1
    assert max(said.values()) <= 2
    assert cut.fingerprint() == whole.fingerprint()


def test_a_clean_restart_repeats_nothing(make_service) -> None:
    """The snapshot at the end comes after the outputs of the last entry."""
    service = make_service("memory")
    fill(service.log, phishing(200))
    run(service, service.log)
    said = service.predictions()
    run(service, service.log)

    assert service.predictions() == said
    assert len(said) == 200


def died(service, at: int, **changes) -> None:
    """Run until an entry whose outputs are never written."""
    stop = threading.Event()

    class Log(Dying):
        def append(self, records) -> None:
            if self.appends + 1 == self._at:
                stop.set()  # or the same process would start over
            super().append(records)

    with pytest.raises(TransportError, match="on purpose"):
        Runner(configured(service, **changes), Log(service.log, at, 0.0), stop, drain=True).run()


def test_a_guarantee_changed_after_a_death_loses_nothing(make_service) -> None:
    """What was committed at least once and not said yet is said by whatever starts next."""
    service = make_service("memory")
    fill(service.log, phishing(300))
    died(service, at=3)
    service.run()

    said = Counter(key for _, key, _ in service.predictions())
    assert len(said) == 300
    assert max(said.values()) == 1


@pytest.mark.parametrize("command", ["promote", "rollback"])
def test_a_command_after_a_death_says_what_was_not_said(make_service, command, capsys) -> None:
    """It writes a snapshot behind the entry, or cuts the entry out: no start would say it then."""
    service = make_service("memory")
    fill(service.log, phishing(300))
    rival = '[[challenger]]\nname = "rival"\ntype = "GaussianNB"\nparameters.var_smoothing = 0.1'
    died(service, at=5, more=rival)
    config, log = configured(service, more=rival), service.log
    found, store = sources(config, log), open_store(config)
    of = Past(config, log, found, store, lambda done, total: None)
    at = moment(log, found.journal, "4" if command == "rollback" else "2999-01-01")
    live = rebuild_at(config, log, found, store, at)
    if command == "promote":
        _promote(of, live, "rival", "")
    else:
        _cut(of, live, "")
    Runner(config, log, threading.Event(), drain=True).run()

    assert {key for _, key, _ in service.predictions()} == {str(i).encode() for i in range(300)}


def test_a_start_that_says_a_letter_too_large_again_cuts_it(make_service) -> None:
    """What it has to say before it is live may be what the topic does not take."""
    service = make_service("memory")
    bad = b"{" + b"x" * 2 * CUT_BYTES
    fill(service.log, phishing(3))
    service.log.append([Outgoing("obs", b"bad", bad)])
    died(service, at=1)

    class Narrow(Dying):
        def append(self, records) -> None:
            if any(len(record.value or b"") > CUT_BYTES for record in records):
                raise RecordTooLargeError("larger than the topic takes")
            super().append(records)

    log = Narrow(service.log, at=0, after=0.0)
    Runner(configured(service), log, threading.Event(), drain=True).run()

    (letter,) = service.records("svc-dead-letters")
    assert letter.value == bad[:CUT_BYTES]

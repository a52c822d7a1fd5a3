"""The processing loop and the lifecycle of a shard, from top to bottom.

    start      fence, locate, replay (recovery)
    loop       poll, merge, process, commit, report, snapshot when due
    stop       finish the current commit, snapshot, close

After a `TransportError` the shard and the owner are discarded, and it starts over. After partitions
were added it starts over with the same shard. A `FencedError` ends the run. Only this module and
`commands` use the clock, signals and threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version

from prometheus_client.registry import CollectorRegistry

from consumers.base.counts import counted
from consumers.base.errors import (
    RESTART,
    FencedError,
    InputChangedError,
    JournalLostError,
    NoAnswerError,
    RecordsMissingError,
    RecordTooLargeError,
    SnapshotError,
    TransportError,
    UnreadableCodecError,
)
from consumers.base.failpoints import reach
from consumers.base.health import Health
from consumers.base.records import Batch, Partition, Uncommitted
from consumers.base.units import duration_ms
from consumers.config import Config
from consumers.journal.merge import Merge
from consumers.service.commit import advance
from consumers.service.crash_guard import CrashGuard, CrashNoteFile
from consumers.service.differences import Decision
from consumers.service.inputs import LogWatch
from consumers.service.journal_end import check_open
from consumers.service.live import LiveShard, Sources
from consumers.service.mix import Mix, Mixer, mixer_of
from consumers.service.pace import (
    Gatherer,
    InterpretedPace,
    Ownership,
    SnapshotDue,
    commit_size,
    hidden,
    reached,
)
from consumers.service.recovery import CUT_OUT, about_of, recover, sources
from consumers.service.schemas import SchemaSupply, registry_of
from consumers.service.trial import TrialProcesses, pieces
from consumers.service.warm_up import wait_for_kernels, with_kernels
from consumers.shard.models import unused
from consumers.shard.views import Committed, ShardView, Subscriber
from consumers.snapshots.format import SnapshotInfo
from consumers.snapshots.key_files import KeyFiles, saved_state
from consumers.snapshots.store import CopyError, SnapshotWriter, open_store
from consumers.telemetry.added import AddedFacts
from consumers.telemetry.event_logger import EventLogger
from consumers.telemetry.prometheus import Telemetry
from consumers.transports.protocol import Log, Owner
from consumers.web.status_feed import StatusFeed
from stream.kernel.tiers import MANY

__all__ = ["Runner"]

log = logging.getLogger("headwater")

PAUSE_SECONDS = 0.2  # before the first retry; doubled for each further one
CUT_BYTES = 64 * 1024  # of a dead letter, after its topic has refused a complete one
ATTEMPTS = 5  # failures in a row without a commit before giving up


class Runner:
    """Runs one shard of a service.

    Parameters
    ----------
    config
        The whole configuration.
    transport
        The log. It stays open.
    stop
        Set it to end after the current commit.
    shard
        Its number.
    drain
        Whether to end at the present end of the inputs.
    subscribers
        Each receives every commit after metrics, live page and log have received it.
    warm
        Returns the shard that a standby has followed, if it has.
    new_journal
        Whether the first recovery may start an empty journal although the service has run before.
    decision
        The operator's decision about inputs that differ from the consumed ones, for the first
        recovery.
    """

    def __init__(
        self,
        config: Config,
        transport: Log,
        stop: threading.Event,
        *,
        shard: int = 0,
        drain: bool = False,
        subscribers: Sequence[Subscriber] = (),
        warm: Callable[[], LiveShard | None] | None = None,
        new_journal: bool = False,
        decision: Decision | None = None,
    ) -> None:
        self._shard, self._warm = shard, warm
        self._new_journal, self._decision = new_journal, decision
        self._owner: Owner | None = None  # the last one, checked before a new one is created
        self._config, self._log, self._stop, self._drain = config, transport, stop, drain
        self._schemas, patience = registry_of(config), ATTEMPTS if drain else None
        self._supply = None
        if self._schemas is not None:
            given = self._schemas, stop.wait, self._waiting_for_schemas
            self._supply = SchemaSupply(*given, patience=patience)
        self._view: ShardView | None = None
        self._objection = ""  # why added partitions are not read
        self._inputs: tuple[Partition, ...] = ()  # that the last owner consumed
        self._health = Health("starting")
        self._serving = config.serve.enabled and config.http.enabled
        self._turned, self._max_idle = 0.0, duration_ms(config.http.max_idle) / 1000
        self._ownership = Ownership(lambda: time.monotonic())
        self._largest_dead_letter: int | None = None
        priors = config.model.parameters.get("priors")
        self._event_logger = EventLogger(time.monotonic, config.decision.named, priors)
        self._added = AddedFacts()
        self.registry = CollectorRegistry()
        self._telemetry = Telemetry(
            self.registry,
            lambda: self._view,
            clock=time.time,
            version=version("headwater"),
            shard=shard,
            max_classes=config.telemetry.max_classes,
            confusions=config.telemetry.challenger_confusion,
        )
        self.store, self._keys = open_store(config, shard), KeyFiles()
        oldest = duration_ms(config.serve.max_age) / 1000
        self.status_feed = StatusFeed(time.time, self.health, oldest)
        self._subscribers: tuple[Subscriber, ...] = (
            self._telemetry.committed,
            self.status_feed.committed,
            self._event_logger.committed,
            *subscribers,
        )

    def health(self) -> Health:
        """The status of the service, for the web pages."""
        now, idle = self._health, time.monotonic() - self._turned
        if now.looping and idle > self._max_idle:
            return Health(
                "stalled",
                f"the loop has made no progress for {idle:.0f} s, longer than [http] max_idle = "
                f"{self._config.http.max_idle}; the process should be restarted",
            )
        if now.looping and (doubt := self._ownership.doubt):
            return Health("starting", doubt)
        return with_kernels(now)

    def status_feeds(self) -> Mapping[int, StatusFeed]:
        """The content of the web pages."""
        return {self._shard: self.status_feed}

    def run(self) -> ShardView | None:
        """Run until stopped, drained or fenced.

        Raises
        ------
        FencedError
            Another process owns the shard now.
        InputChangedError, JournalLostError
            An input differs from what was consumed, or the journal has lost records of this shard,
            and an operator must decide.
        TransportError
            The first start failed, or five in a row, or two that need records which are gone. Where
            the log did not answer, it starts over for as long as that lasts, unless it drains.
        """
        with closing(self._keys):
            return self._lives()

    def _lives(self) -> ShardView | None:
        """Run one life after another, until stopped, drained or fenced. An error that may pass
        starts the next life."""
        failures = tries = 0
        while True:
            before = self._committed(), self._ownership.confirmations
            try:
                while self._life():
                    pass  # again, with the added partitions
                self._health = Health("stopped")
                return self._view
            except (FencedError, InputChangedError, JournalLostError) as error:
                self._health = Health("dead", str(error))
                raise
            except UnreadableCodecError as error:
                self._wait_for_a_restart(error)
                return self._view
            except TransportError as error:
                cut = self._largest_dead_letter is None and isinstance(error, RecordTooLargeError)
                if cut:  # only a dead letter can be too large: its input plus headers
                    self._largest_dead_letter = CUT_BYTES
                if (self._committed(), self._ownership.confirmations) != before:
                    failures = tries = 0
                tries += 1
                failures += self._drain or not isinstance(error, NoAnswerError)
                gone = tries > 1 and isinstance(error, RecordsMissingError)  # also for a new start
                if gone or self._stop.is_set() or failures >= ATTEMPTS or not (self._view or cut):
                    self._health = Health("dead", str(error))
                    raise
                pause = PAUSE_SECONDS * 2 ** min(tries, ATTEMPTS)
                log.warning("%s; starting over from the journal in %.1f s", error, pause)
                self._health = Health("starting", str(error))
                self._stop.wait(pause)

    def _wait_for_a_restart(self, error: UnreadableCodecError) -> None:
        """Stay not ready until stopped, because codecs are loaded only at a start.

        If the process ended, a supervisor would restart it repeatedly, and each time it would read
        up to the same batch. A run with `--drain` fails instead, because nobody watches its health.
        """
        if self._drain:
            self._health = Health("dead", str(error))
            raise error
        log.error("%s; waiting, not ready, for a restart", error)
        self._health = Health("starting", str(error))
        self._stop.wait()
        self._health = Health("stopped")

    def _committed(self) -> int | None:
        return None if self._view is None else self._view.records

    def _life(self) -> bool:
        """From fencing to the clean stop of an owner. True if partitions were added."""
        found = replace(
            sources(self._config, self._log, self._shard),
            largest_dead_letter=self._largest_dead_letter,
            predictions_schema=self._predictions_schema(),
        )
        if self._inputs and self._config.scale.shards > 1:
            # A start would refuse added partitions. The watch decides whether they are read.
            found = replace(found, inputs=tuple(p for p in found.inputs if p in self._inputs))
        if self._owner is not None and self._owner.overtaken():
            raise FencedError(
                f"expected to own shard {self._shard} of {self._config.name}, but another process "
                f"has taken over while the log could not be reached; {RESTART}"
            )
        check_open(self._log, found.journal)
        if self._stop.is_set():  # also where the process that started this one has ended
            return False
        owner = self._owner = self._log.owner(self._config.name, self._shard, found.inputs)
        self._ownership.proven()
        if owner.fenced:
            log.warning(
                "shard %d of %s belonged to process %s, which still runs: this process has taken "
                "it over, and that process ends with exit code 3",
                self._shard,
                self._config.name,
                owner.fenced,
            )
        try:
            live = self._recover(owner, found)
            writer = SnapshotWriter(
                self.store.of(live.identity),
                partial(self._snapshot_done, live),
                self._snapshot_failed,
            )
            directory = self.store.of(live.identity).directory
            guard = CrashGuard(CrashNoteFile(directory), live.seq + 1, live.shard.positions)
            if guard.story:
                log.warning("%s", guard.story)
            try:
                grown = self._loop(owner, live, found, writer, guard)
            finally:
                guard.close()
                writer.close()
            if grown:
                self._warm, self._inputs = lambda: live, ()
            elif self._view is not None:
                why = "stopped" if self._stop.is_set() else "drained"
                if why == "drained":
                    self._event_logger.unread(hidden(self._log, owner, live.shard.positions))
                view = self._added.with_view(self._view, now=True)
                self._event_logger.ended(why, live.position, view)
            return grown
        finally:
            owner.close()

    def _predictions_schema(self) -> int:
        """The id of the registered schema of predictions, before anything is fenced."""
        if self._schemas is None:
            return 0
        return self._schemas.predictions_schema(self._config.predictions_topic)

    def _waiting_for_schemas(self, why: str) -> None:
        """Show that records wait because the registry does not answer; "": it answers again."""
        self._turn()
        if why:
            self._health = Health("starting", f"records wait for their schemas: {why}")
            self._event_logger.progress("records wait for their schemas: %s", why)
        elif self._view is not None:
            self._health = _health(self._view, self._objection)

    def _recover(self, owner: Owner, found: Sources) -> LiveShard:
        self._health = Health("replaying")
        reach("in_locate")
        follower, self._warm = self._warm, None  # the first time only: later the log has moved on
        warm = None if follower is None else follower()
        live = recover(
            self._config,
            self._log,
            owner,
            found,
            self.store,
            now=time.time_ns() // 1_000_000,
            progress=self._replaying,
            warm=warm,
            new_journal=self._new_journal,
            decision=self._decision,
            keys=self._keys,
        )
        self._new_journal, self._decision, self._inputs = False, None, found.inputs
        for objection in live.refused:
            # After a rollback this is expected, and no action is needed.
            level = logging.INFO if CUT_OUT in objection else logging.WARNING
            log.log(level, "snapshot not used: %s", objection)
        if live.diverged is not None:
            log.warning(
                "%s did not repeat journal record %d: its parts draw random numbers, or its code "
                "has changed; give each part a seed to get the same model after a restart",
                self._config.model.type,
                live.diverged,
            )
        if live.differs is not None:
            log.warning(
                "the snapshot was made by %s: it is exact, but the replay after it (%s) may differ "
                "in the last bits",
                live.differs,
                counted(live.replayed, "record"),
            )
        if live.snapshot is not None:
            self._telemetry.snapshot_written(live.snapshot / 1000)
            self.status_feed.snapshot_written(live.snapshot / 1000)
        for line in live.news:
            log.info("%s", line)
        if (origin := live.shard.spec.imported[0]) != "":
            log.info("it began with the model %s: scores begin there", origin)
        if unsaved := ", ".join(live.shard.unsaved):
            log.info("%s is not saved in snapshots: rebuilt from the journal", unsaved)
        if (left := unused(self._config.model, live.shard.spec.schema)) is not None:
            log.warning("note features: %s", left)
        self._telemetry.replay_remaining(0)
        self._view = self._added.with_view(live.shard.view())
        self._show_mix(self._view)
        self._turn()
        self._health = _health(self._view)
        self.status_feed.recovered(self._view)
        log.info(
            "live at journal record %d, %s replayed, %s known, %s",
            live.seq,
            counted(live.replayed, "record"),
            counted(self._view.observations, "observation"),
            self._view.learning,
        )
        return live

    def _replaying(self, done: int, total: int) -> None:
        reach("mid_replay")
        self._telemetry.replay_remaining(total - done)
        if total - done >= MANY:
            wait_for_kernels(self._stop.is_set, log.info)
        self._health = Health("replaying", f"{total - done} records remain")
        self._event_logger.progress("replayed %s of %s", f"{done:,}", counted(total, "record"))

    def _loop(
        self,
        owner: Owner,
        live: LiveShard,
        found: Sources,
        writer: SnapshotWriter,
        guard: CrashGuard,
    ) -> bool:
        merge = Merge(found.inputs, found.label_topics, 2 * found.max_bytes, found.measure)
        merge.seek(live.shard.positions)
        due, grown = SnapshotDue(self._config, live), False
        with self._keeping(due, live, writer):
            until = self._log.end_offsets(found.inputs) if self._drain else None
            watch = LogWatch(self._config, self._log, found, live, time.monotonic)
            ends: Mapping[Partition, int] = owner.ends()
        gatherer = Gatherer(self._config, owner, merge, self._turn, self._stop, until)
        aside = None if self._config.commit.guarantee == "exactly_once" else self._log.append
        commit = partial(advance, owner, live, found, guard=guard, aside=aside)
        trials = self._trials(live)
        mixer, pace = mixer_of(self._config, self._log, owner, live, found), InterpretedPace()
        while not self._stop.is_set():
            size = pace.within(commit_size(self._config.commit, live.shard, found.max_bytes, ends))
            with self._keeping(due, live, writer):
                batch, clock = gatherer.next(size, live.now)
                grown = watch.due(idle=batch is None) and self._look(watch, live, batch)
                ends, uncommitted = owner.ends(), owner.uncommitted()
                stopped = False
                if self._supply is not None and batch is not None and not grown:
                    stopped = not self._supply.before(batch, live, owner, found, clock)
                mix = None if mixer is None or not mixer.due() else mixer.look()
            if grown or stopped:
                break
            if mixer is not None and mix is not None:
                self._mix(mixer, mix, live, clock)
                due.mixed()
            self._show(live, found, ends, uncommitted)
            self._ownership.idle = batch is None
            if batch is None:
                if until is not None and reached(live.shard.positions, until, ends):
                    break
                if due(live, writer.busy):
                    self._snapshot(live, writer)
                with self._keeping(due, live, writer):
                    self._ownership.confirm_if_due(owner, live.shard.positions)
                continue
            if guard.suspicious:
                self._health = Health("starting", "records are tried in child processes first")
            for piece, skips in pieces(batch, clock, live, guard, trials):
                _report(guard.findings)
                if self._stop.is_set():
                    break
                started, before = time.perf_counter(), live.position
                event = commit(piece, clock, skips=skips, counted=self._added.counted)
                self._ownership.proven()
                event = replace(event, seconds=time.perf_counter() - started)
                pace.took(event.records, event.seconds)
                self._publish(event, live)
                if event.position < before:  # the journal ended earlier than this shard has seen
                    self._snapshot(live, writer)
                    watch.journaled(live, event.position)
            if due(live, writer.busy):
                self._snapshot(live, writer)
            if until is not None and reached(live.shard.positions, until, {}):
                break
        reach("shutdown")
        if due.changed:
            self._snapshot(live, writer)
        if mixer is not None and not grown:
            self._last_mix(mixer, live)
        return grown

    def _show(
        self,
        live: LiveShard,
        found: Sources,
        ends: Mapping[Partition, int],
        uncommitted: Mapping[Partition, Uncommitted],
    ) -> None:
        """Publish the ends and open transactions of the inputs, and answer questions."""
        self._telemetry.ends(ends)
        self.status_feed.reached(ends)
        self._telemetry.uncommitted(uncommitted)
        if uncommitted:
            self._event_logger.uncommitted(uncommitted)
        self.status_feed.questions.answer(live.shard, time.monotonic)
        if self._serving:
            at = found.journal, live.position
            self.status_feed.copies.offer(*at, partial(live.shard.copied, *at))

    @contextmanager
    def _keeping(self, due: SnapshotDue, live: LiveShard, writer: SnapshotWriter) -> Iterator[None]:
        """Write a snapshot if the log fails here, while no batch is being processed.

        The consumed records may no longer exist in the log, and the model would be lost with them.
        """
        try:
            yield
        except (InputChangedError, TransportError):
            if due.changed:
                self._snapshot(live, writer)
            raise

    def _look(self, watch: LogWatch, live: LiveShard, batch: Batch | None) -> bool:
        """Check that inputs and journal are unchanged. True if partitions were added."""
        before = self._objection
        try:
            grown = watch.look(live)
        except TransportError as error:
            if batch is not None or isinstance(error, JournalLostError):
                raise
            return False  # no answer: checked again before anything is committed
        if watch.objection and watch.objection != before:
            log.warning(
                "%s and %d more partitions were added and are not read: %s",
                watch.unread[0],
                len(watch.unread) - 1,
                watch.objection,
            )
        self._telemetry.unread(len(watch.unread))
        self._objection = watch.objection
        if self._view is not None:
            self._health = _health(self._view, self._objection)
        return grown

    def _trials(self, live: LiveShard) -> TrialProcesses:
        """The processes that try suspected records."""
        return TrialProcesses(
            self._config,
            self.store.of(live.identity).directory,
            seconds=self._max_idle,
            turn=self._turn,
            stopping=self._stop.is_set,
        )

    def _publish(self, event: Committed, live: LiveShard) -> None:
        """Publish an acknowledged commit to the subscribers, one after the other.

        The view and the health of the runner are those after the commit before the first of them
        is called. If one raises, the subscribers after it do not receive the commit, and the run
        treats the exception as one of its own: a `TransportError` starts over from the journal,
        which publishes no commit again, and any other exception ends the run.
        """
        self._added.committed(event)
        self._view = view = self._added.with_view(live.shard.view())
        self._health = _health(view, self._objection)
        for subscriber in self._subscribers:
            subscriber(event, view)

    def _mix(self, mixer: Mixer, mix: Mix, live: LiveShard, now: int) -> None:
        """Make a mix, and show the shard as it is afterwards."""
        mixer.make(mix, now)
        self._view = self._added.with_view(live.shard.view())
        self._show_mix(self._view)

    def _show_mix(self, view: ShardView) -> None:
        if view.mix is not None and view.mix.oldest is not None:
            self._telemetry.mixed(view.mix.oldest)

    def _last_mix(self, mixer: Mixer, live: LiveShard) -> None:
        """Publish before the end, so that the others have all that this shard has learned.

        It takes over nothing more, because the last snapshot is written."""
        try:
            mix = mixer.look()
            if mix is not None and mix.publishing is not None:
                self._mix(mixer, mix.publishing, live, live.now)
        except (FencedError, TransportError) as error:
            log.warning("%s; what was learned since the last mix is published later", error)

    def _turn(self) -> float:
        """Note that the loop has polled its inputs. Returns in how many seconds it is wanted."""
        self._turned = time.monotonic()
        self._telemetry.polled()
        return self.status_feed.wanted_in(serving=self._serving)

    def _snapshot(self, live: LiveShard, writer: SnapshotWriter) -> None:
        if live.shard.unsaved:
            return
        writer.submit(about_of(self._config, live), saved_state(live.shard))

    def _snapshot_done(self, live: LiveShard, about: SnapshotInfo, at: float) -> None:
        live.snapshots[about.position] = about.fingerprint
        self._telemetry.snapshot_written(at)
        self.status_feed.snapshot_written(at)
        log.debug("snapshot at journal position %d", about.position)

    def _snapshot_failed(self, error: SnapshotError) -> None:
        copied = isinstance(error, CopyError)
        self._telemetry.snapshot_failed("copy" if copied else "local")
        self.status_feed.snapshot_not_written(str(error))
        what = "the next snapshot is copied again" if copied else "a restart will replay more"
        log.error("%s; the service continues, %s", error, what)


def _health(view: ShardView, objection: str = "") -> Health:
    if objection:
        return Health("degraded", f"added partitions are not read: {objection}")
    if not view.held_back:
        return Health("live")
    return Health(
        "degraded",
        f"nothing is learned: {view.recent_dead_letters:,} of the last 1,000 records were dead "
        "letters; see their reasons, or raise [output] max_dead_letter_ratio",
    )


def _report(findings: list[str]) -> None:
    """Log the results of trials, once."""
    while findings:
        log.warning("%s", findings.pop(0))

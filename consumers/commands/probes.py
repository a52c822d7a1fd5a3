"""Probes of `headwater doctor` that need no running service: log, disk, compiled kernels.

Rule: a probe changes nothing, and fences nobody. It reports what it measured, and one thing to do.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from consumers.base.errors import HeadwaterError
from consumers.commands.findings import Report
from consumers.commands.transport import is_absent
from consumers.transports.registry import local_path, transport_of

if TYPE_CHECKING:
    from consumers.base.records import Partition, TopicSettings
    from consumers.config import Config
    from consumers.transports.protocol import Log

__all__ = ["probe_disk", "probe_kernels", "probe_log"]

SLOW_SECONDS = 1.0  # for a question that a healthy log answers in milliseconds
# Further ahead is ignored: docs/decisions/inputs.md#timestamps-of-the-future-are-ignored
AHEAD_MS = 60_000
UNUSED = 0.5  # share of a file from which `headwater compact` pays
ROOM = 2  # snapshots that must fit on the disk: the next one, before the oldest is removed
FULL = 0.05  # share of a disk that should stay free


def probe_log(config: Config, report: Report) -> None:
    """How fast the log answers, who may write, clocks, and how long topics are kept."""
    from consumers.config.log import log_of

    url = config.input.transport
    if is_absent(url):  # `check` reports it, and opening would create it
        return
    try:
        with closing(log_of(config)) as log:
            topics = [t for t in dict.fromkeys(config.topics.values()) if t in log.topics()]
            _probe_speed(log, topics, report)
            _probe_write(config, log, report)
            _probe_clock(config, log, topics, report)
            _probe_settings(config, log.topic_settings(topics), report)
    except HeadwaterError as error:
        report.wrong("log", str(error))
    _probe_file(config, report)


def _parts(log: Log, topics: Collection[str]) -> list[Partition]:
    from consumers.base.records import Partition

    described = log.describe(topics)
    return [Partition(t, n) for t in described for n in range(described[t].partitions)]


def _probe_speed(log: Log, topics: Collection[str], report: Report) -> None:
    began = time.monotonic()
    log.end_offsets(_parts(log, topics))
    seconds = time.monotonic() - began
    text = f"answers in {1000 * seconds:,.1f} ms"
    if seconds > SLOW_SECONDS:
        report.note("log", f"{text}, which is slow: look at the load of its machine and the way")
    else:
        report.fine("log", text)


def _probe_write(config: Config, log: Log, report: Report) -> None:
    try:
        log.check_writable(config.name)
    except HeadwaterError as error:
        report.wrong("write", f"{error}; give this user the right to write")
    else:
        report.fine("write", "the log accepts a transaction; nothing was written")


def _probe_clock(config: Config, log: Log, topics: Collection[str], report: Report) -> None:
    """Newest timestamps ahead of this machine. Earlier ones only show how old records are."""
    parts = _parts(log, [t for t in topics if t in (*config.input_topics, config.journal_topic)])
    begins, ends = log.beginning_offsets(parts), log.end_offsets(parts)
    starts = {p: max(begins[p], ends[p] - 10) for p in parts}
    newest = 0
    for chunk in log.read(starts, ends):
        newest = max(newest, *chunk.timestamps)
    if not newest:
        return
    ahead = newest - time.time() * 1000
    if ahead > AHEAD_MS:
        report.wrong(
            "clock",
            f"the newest record is {ahead / 1000:,.0f} s ahead of this machine, and such times are "
            "ignored; synchronize the clocks of producers, broker and this machine (NTP)",
        )
    else:
        report.fine("clock", "no record is ahead of this machine")


def _probe_settings(config: Config, settings: Mapping[str, TopicSettings], report: Report) -> None:
    """Retention, compaction and replicas of the topics of a broker."""
    wrong = report.problems
    needed = config.own_topics
    for topic, about in settings.items():
        if about.compacted and topic in (*config.input_topics, *needed):
            report.wrong(
                "retention",
                f"{topic} is compacted, so consumed records disappear; set cleanup.policy=delete",
            )
    inputs = [settings[t] for t in config.input_topics if t in settings]
    longest = max((_for_ever(i.retention_ms) for i in inputs), default=0.0)
    for topic in needed:
        if topic not in settings or not inputs:
            continue
        if _for_ever(settings[topic].retention_ms) < longest:
            report.wrong(
                "retention",
                f"{topic} is kept shorter than the inputs, and a model is rebuilt "
                f"from both; set retention.ms of {topic} to -1",
            )
        if settings[topic].retention_bytes >= 0:
            report.wrong(
                "retention",
                f"{topic} loses its oldest records by size; set retention.bytes -1",
            )
    if settings and report.problems == wrong:
        report.fine("retention", "the journal is kept at least as long as the inputs")
    alone = [topic for topic, about in settings.items() if about.replicas < 2]
    if alone:
        report.note(
            "replicas",
            f"{', '.join(alone)}: one copy only, so the loss of a broker's disk loses records; "
            "use three replicas in production",
        )


def _for_ever(ms: int) -> float:
    return float("inf") if ms < 0 else float(ms)


def _probe_file(config: Config, report: Report) -> None:
    """The size of an embedded log, and the room on its disk."""
    path = local_path(config.input.transport)
    if path is None or not Path(path).exists():
        return
    _room(Path(path).parent, "disk of the log", 0, report)
    if not transport_of(config.input.transport).compacts:
        return
    from consumers.transports.sqlite.log import SqliteLog

    try:
        with closing(SqliteLog(path)) as log:
            size = log.compactor().size()
    except HeadwaterError:  # reported above
        return
    text = f"{size.file / 1e6:,.1f} MB"
    if size.unused > UNUSED * size.file:
        text += f", {size.unused / 1e6:,.1f} MB of them unused; `headwater compact` returns them"
        report.note("file", text)
    else:
        report.fine("file", text)


def probe_disk(config: Config, report: Report) -> None:
    """Whether the directory of snapshots can be written, and has room for the next ones."""
    from consumers.snapshots.store import home

    directory = config.snapshots.directory
    there = directory
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return  # `check` reports it
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        report.wrong("snapshots", f"cannot write to {there}: {error.strerror}; repair its disk")
        return
    sizes = [
        path.stat().st_size
        for shard in range(config.scale.shards)
        for path in home(config, shard).glob("**/*.hws")
    ]
    _room(there, "snapshots", ROOM * max(sizes, default=0), report)


def _room(directory: Path, what: str, needed: int, report: Report) -> None:
    usage = shutil.disk_usage(directory)
    text = f"{usage.free / 1e9:,.1f} GB of {usage.total / 1e9:,.1f} GB are free"
    if usage.free < needed:
        report.wrong(what, f"{text}, {needed / 1e9:,.1f} GB are needed for snapshots; free space")
    elif usage.free < FULL * usage.total:
        report.note(what, f"{text}; free space before the disk is full")
    else:
        report.fine(what, text)


def probe_kernels(config: Config, report: Report) -> None:
    """Whether the first start has to compile."""
    from consumers.service.warm_up import CompilationStopped, missing_kernels

    try:
        missing = missing_kernels(config)
    except CompilationStopped:
        report.note(
            "kernels",
            "not compiled yet: the first start takes up to a minute longer, each time if the "
            "directory of the package and NUMBA_CACHE_DIR cannot be written",
        )
    except HeadwaterError as error:
        report.wrong("kernels", str(error))
    else:
        if missing:
            report.note(
                "kernels",
                f"{missing} are not compiled yet: the first start compiles them in the background, "
                "and predicts more slowly for about a minute",
            )
        else:
            report.fine("kernels", "compiled")

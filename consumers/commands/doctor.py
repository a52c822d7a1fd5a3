"""`headwater doctor`: everything `check` finds, and probes of what runs: log, disk, service.

Rule: a probe changes nothing, and fences nobody. It reports what it measured, and one thing to do.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from consumers.base.errors import ConfigError, HeadwaterError
from consumers.codecs.unused import like_one
from consumers.commands.check import counted_wrong, inspect
from consumers.commands.findings import Finding, Report
from consumers.commands.past import ConfigArgument, JsonOption
from consumers.commands.transport import is_absent
from consumers.transports.registry import local_path, transport_of
from stream.evaluate.guessing import ENOUGH

if TYPE_CHECKING:
    from consumers.base.records import Partition, TopicSettings
    from consumers.config import Config
    from consumers.transports.protocol import Log

__all__ = ["doctor", "probe_disk", "probe_kernels", "probe_log", "probe_service", "read_status"]

ASK_SECONDS = 2.0
ANSWER_BYTES = 4 * 2**20
OK = 200
MOST_SHARDS = 64  # that are looked at
MOST_FINDINGS = 20  # of all shards, that are shown
STALE_SECONDS = 300.0  # since the last commit, while records wait
DEAD_SHARE = 0.01  # of the consumed observations
BAD_SHARE = 0.01  # of the observations
ENOUGH_OBSERVATIONS = 1_000  # to say that a field is in none of them
SNAPSHOT_SECONDS = 86_400.0  # a restart after it replays a day
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  not listened on


def probe_service(config: Config, report: Report) -> None:
    """Whether the service runs under this name, and is well."""
    http = config.http
    if not http.enabled:
        report.note("service", "[http] is off, so its health cannot be seen")
        return
    if http.port == 0:
        report.note("service", "[http] port is 0, so its page cannot be found; set a port")
        return
    host = EVERYWHERE.get(http.host, http.host)
    where = f"{host}:{http.port}"
    if _free(http.host, http.port):
        report.note("service", f"does not run on this machine: port {where} is free")
        return
    try:
        code, body = _ask(host, http.port, tls=http.web_config is not None)
    except (OSError, HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        report.wrong("service", f"{where} is taken, and does not answer ({why}): see what uses it")
        return
    if code == 401:
        report.note("service", f"{where} asks for a password, so its health was not read")
        return
    try:
        document = msgspec.json.decode(body)
        name = document["service"]
    except (ValueError, TypeError, LookupError):
        report.wrong(
            "service", f"{where} is used by another program; set another [http] port, or stop it"
        )
        return
    if name != config.name:
        report.wrong("service", f"{where} is used by the service {name}; set another [http] port")
        return

    def status_of(number: int) -> object:
        path = f"/status?shard={number}"
        try:
            code, body = _ask(host, http.port, tls=http.web_config is not None, path=path)
            return msgspec.json.decode(body)["shard"] if code == OK else None
        except (OSError, HTTPException, ValueError, TypeError, LookupError):
            return None

    read_status(document, report, time.time(), status_of)


def _free(host: str, port: int) -> bool:
    """Whether nobody listens there. Other errors are reported by the question that follows."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        with closing(socket.create_server(address[:2], family=family)):
            return True
    except OSError as error:
        return error.errno != errno.EADDRINUSE


def _ask(host: str, port: int, *, tls: bool, path: str = "/status") -> tuple[int, bytes]:
    connection: HTTPConnection = HTTPConnection(host, port, timeout=ASK_SECONDS)
    if tls:
        # It is asked for its health, and gets no secret. Its certificate may name another host.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(host, port, timeout=ASK_SECONDS, context=context)
    with closing(connection):
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
        except ssl.SSLError:
            if not tls:
                raise
            return _ask(host, port, tls=False, path=path)  # a web_config of logins only
        return answer.status, answer.read(ANSWER_BYTES)


def read_status(
    document: Mapping[str, Any],
    report: Report,
    now: float,
    status_of: Callable[[int], object] = lambda number: None,
) -> None:
    """The findings in a status document of the service, which has one of its shards in full.

    Parameters
    ----------
    status_of
        Returns the part of a status document that another shard has in full; None if it cannot.
    """
    state, detail = str(document.get("state")), str(document.get("detail") or "")
    text = f"{state}: {detail}" if detail else state
    if state in ("live", "standby"):
        report.fine("service", text)
    elif state in ("starting", "replaying"):
        report.note("service", f"{text}; wait until it is live")
    elif state == "degraded":
        report.wrong("service", f"{text}; it predicts and does not learn")
    else:
        report.wrong("service", f"{text}; read its log, then start it again")
    shard, lines = document.get("shard"), document.get("shards") or ()
    if len(lines) > 1:
        _read_shards(lines, shard, report, now, status_of)
    elif isinstance(shard, Mapping):
        _read_shard(shard, report, now)


def _read_shards(
    lines: Sequence[Mapping[str, Any]],
    first: Mapping[str, Any] | None,
    report: Report,
    now: float,
    status_of: Callable[[int], object],
) -> None:
    """The findings of each shard that are not fine, with its number; the worst first."""
    found: list[Finding] = []
    well = 0
    for line in lines[:MOST_SHARDS]:
        number, part = line.get("number"), Report(quiet=True)
        shard = first if first and first.get("number") == number else status_of(int(number or 0))
        if isinstance(shard, Mapping) and shard.get("number") == number:
            _read_shard(shard, part, now)
        else:
            part.note("status", f"{line.get('state')}; its records cannot be read now, try again")
        bad = [each for each in part.findings if each.level != "ok"]
        found += [replace(each, what=f"{each.what} of shard {number}") for each in bad]
        well += not bad
    found.sort(key=lambda each: each.level != "wrong")
    for each in found[:MOST_FINDINGS]:
        report.add(each)
    if (rest := len(found) - MOST_FINDINGS) > 0:
        report.note("shards", f"{rest:,} more findings; mend these and look again")
    if (left := len(lines) - MOST_SHARDS) > 0:
        report.note("shards", f"{left:,} more of this process were not looked at")
    if well:
        report.fine("shards", f"{well:,} of {len(lines):,} in this process are well")


def _read_shard(shard: Mapping[str, Any], report: Report, now: float) -> None:
    _read_commits(shard, report, now)
    _read_records(shard, report)
    _read_fields(shard.get("fields") or {}, report)
    _read_quality(shard, report)


def _read_commits(shard: Mapping[str, Any], report: Report, now: float) -> None:
    lag, at = shard.get("lag"), shard.get("committed_at")
    age = None if at is None else max(0.0, now - at)
    waiting = "" if lag is None else f", {lag:,} records wait"
    if age is not None and age > STALE_SECONDS and lag:
        report.wrong(
            "commits",
            f"the last one was {_ago(age)}{waiting}; see the log for why the loop stands still",
        )
    elif age is not None:
        report.fine("commits", f"the last one was {_ago(age)}{waiting}")
    elif lag:
        report.note("commits", f"none yet{waiting}")
    if error := shard.get("snapshot_error"):
        report.wrong("snapshots", f"the last one failed: {error}; a restart replays more")
    elif (written := shard.get("snapshot_at")) and now - written > SNAPSHOT_SECONDS:
        report.note("snapshots", f"the last one was written {_ago(now - written)}")


def _read_records(shard: Mapping[str, Any], report: Report) -> None:
    observations = int(shard.get("observations") or 0)
    dead = {reason: n for reason, n in shard.get("refusals") or () if n}
    total = sum(dead.values())
    if total and total > DEAD_SHARE * (observations + total):
        worst = max(dead, key=lambda reason: dead[reason])
        report.wrong(
            "dead letters",
            f"{total:,} beside {observations:,} observations, most of them {worst}; `headwater "
            "tail NAME-dead-letters --envelope` shows each with its reason",
        )
    elif observations:
        report.fine("dead letters", f"{total:,} beside {observations:,} observations")
    if unmet := shard.get("unmet_labels"):
        report.wrong("labels", str(unmet))
    elif observations and not shard.get("learned"):
        report.wrong("labels", "no label was learned yet; check that labels arrive, and their ids")


def _read_fields(found: Mapping[str, Any], report: Report) -> None:
    """Declared fields that no observation uses, or few. Values are not shown: people post this."""
    observations = int(found.get("observations") or 0)
    if observations < ENOUGH_OBSERVATIONS:
        return
    names = [each["name"] for each in found.get("unknown") or ()]
    wrong = 0
    for field in found.get("fields") or ():
        name, bad = field["name"], int(field["bad"])
        if not field["used"] and not bad:
            like = like_one(name, names)
            hint = "" if like is None else f": they have {like!r}"
            text = f"{name!r} has no value in {observations:,} observations; check its name{hint}"
        elif bad > BAD_SHARE * observations:
            text = (
                f"{bad:,} values of {name!r} in {observations:,} observations do not fit its kind "
                f"({field['reason']}), the page shows the last; declare another kind, or correct "
                "the producer"
            )
        else:
            continue
        wrong += 1
        report.wrong("fields", text)
    if not wrong:
        report.fine("fields", f"all are used in some of {observations:,} observations")


def _read_quality(shard: Mapping[str, Any], report: Report) -> None:
    for key in ("worse_than_guessing", "only_one_class"):
        if sentence := shard.get(key):
            report.wrong("quality", str(sentence))
    learned = int(shard.get("learned") or 0)
    if learned and not shard.get("worse_than_guessing"):
        told = (
            "not worse than guessing" if learned >= ENOUGH else "too few to compare with guessing"
        )
        report.fine("quality", f"{learned:,} labels learned, {told}")


def _ago(seconds: float) -> str:
    """How long ago, in its largest unit.

    Examples
    --------
    >>> _ago(3), _ago(7200)
    ('3 s ago', '2 h ago')
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


SLOW_SECONDS = 1.0  # for a question that a healthy log answers in milliseconds
# Further ahead is ignored: docs/decisions/inputs.md#timestamps-of-the-future-are-ignored
AHEAD_MS = 60_000
UNUSED = 0.5  # share of a file from which `headwater compact` pays
ROOM = 2  # snapshots that must fit on the disk: the next one, before the oldest is removed
FULL = 0.05  # share of a disk that should stay free


def probe_log(config: Config, report: Report) -> None:
    """How fast the log answers, who may write, clocks, and how long topics are kept."""
    from consumers.config.load import log_of

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


def doctor(
    config: ConfigArgument,
    as_json: JsonOption = False,
    no_kernels: Annotated[
        bool, typer.Option("--no-kernels", help="Do not look whether kernels are compiled.")
    ] = False,
) -> None:
    """Check a configuration, and probe its log, disk and running service; nothing is changed.

    Ends with 0 if nothing is wrong, 1 if only a probe failed, 2 if `headwater check` would fail.

    \b
    Examples:
      headwater doctor payments.toml
      headwater doctor payments.toml --json
    """
    from consumers.config import load

    settings = load(config)
    report = Report(quiet=as_json)
    inspect(settings, config, report)
    in_the_file = report.problems
    probe_log(settings, report)
    probe_disk(settings, report)
    if not no_kernels:
        probe_kernels(settings, report)
    probe_service(settings, report)
    if as_json:
        findings = [
            {"level": found.level, "what": found.what, "text": found.text}
            for found in report.findings
        ]
        document = {"config": str(config), "name": settings.name, "wrong": report.problems}
        typer.echo(json.dumps(document | {"findings": findings}, ensure_ascii=False))
    if report.problems:
        text = f"{counted_wrong(report.problems)} with {config}, shown above"
        raise ConfigError(text) if in_the_file else HeadwaterError(text)

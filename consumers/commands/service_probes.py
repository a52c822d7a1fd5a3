"""Probes of `headwater doctor` for the running service: what its page reports, with advice."""

from __future__ import annotations

import errno
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any

import msgspec

from consumers.codecs.unused import like_one
from consumers.commands.findings import Finding, Report
from stream.evaluate.guessing import ENOUGH

if TYPE_CHECKING:
    from consumers.config import Config

__all__ = ["probe_service", "read_status"]

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

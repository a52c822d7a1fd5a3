"""The service under a memory limit, fed with the largest records that are legal.

A process of the test looks at the peak of the service's resident memory (VmHWM of Linux, which
forgets nothing between two looks) and kills it at the limit, as a container's kernel would. It
counts pages of the libraries' files too, so it is the stricter of the two.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from consumers.base.records import Outgoing, Partition
from consumers.codecs.json import LARGEST_RECORD
from consumers.transports.protocol import Log
from tests.acceptance.service import HEADWATER
from tests.waiting import PATIENCE

__all__ = ["KINDS", "MIB", "Ran", "configure", "fill", "limited", "memory_round", "violations"]

MIB = 2**20
START = 1_700_000_000_000
PARTITIONS = 3
SIZE = LARGEST_RECORD - 8 * 1024  # a broker counts its own head of a record, too
AT_ONCE = 32 * MIB  # of what is fed
KINDS = ("field", "text", "dead", "label", "mixed")

CONFIG = """
name = "{name}"
[input]
transport = "{url}"
observations = "{name}-obs"
labels = "{name}-ans"
[features]
a = "numeric"
{text}
[model]
type = "{model}"
{limits}
[snapshots]
every_records = 500
[http]
port = 0
"""

# As it was before there was a bound: all that comes within ten seconds is one commit.
UNBOUND = "[commit]\nmax_bytes = 17179869184\nmax_records = 100000\nmax_delay_ms = 10000"


class Ran(NamedTuple):
    """A run: its exit code (-9: killed), the peak in bytes, and what it said."""

    code: int
    peak: int
    said: str


def configure(directory: Path, name: str, url: str, kind: str, limits: str = "") -> Path:
    """A configuration of the kind's features; one of words where the records have a text."""
    path = directory / f"{name}.toml"
    words = kind in ("text", "mixed")
    text, model = ('t = "text"', "MixedNB") if words else ("", "GaussianNB")
    path.write_text(CONFIG.format(name=name, url=url, text=text, model=model, limits=limits))
    return path


def records(name: str, kind: str, count: int, seed: int) -> Iterator[Outgoing]:
    """Observations of the largest size that is legal, and their labels 30 records later."""
    rng = random.Random(seed)
    kinds = ("field", "text", "dead", "label") if kind == "mixed" else (kind,)
    for i in range(count + 30):
        if i < count:
            x: dict[str, object] = {"id": str(i), "a": rng.random()}
            this = kinds[i % len(kinds)]
            if this == "field":
                x["ignored"] = "j" * SIZE
            elif this == "text":
                x["t"] = f"word{i % 99} another{i % 7} " * (SIZE // 24)
            value = b"{" + b"x" * SIZE if this == "dead" else json.dumps(x).encode()
            yield Outgoing(f"{name}-obs", b"%d" % i, value, START + 10 * i, (), i % PARTITIONS)
        if i >= 30:
            label: dict[str, object] = {"id": str(i - 30), "label": rng.choice("ab")}
            if kinds[(i - 30) % len(kinds)] == "label":
                label["ignored"] = "j" * SIZE
            value = json.dumps(label).encode()
            yield Outgoing(f"{name}-ans", b"%d" % (i - 30), value, START + 10 * i + 5, (), 0)


def fill(log: Log, name: str, kind: str, count: int, seed: int = 1) -> None:
    """Make the topics and put all of it into the inputs."""
    for topic, partitions in (
        (f"{name}-obs", PARTITIONS),
        (f"{name}-ans", 1),
        (f"{name}-predictions", PARTITIONS),
        (f"{name}-dead-letters", 1),
        (f"{name}-journal", 1),
    ):
        log.create_topic(topic, partitions)
    batch: list[Outgoing] = []
    held = 0
    for record in records(name, kind, count, seed):
        batch.append(record)
        held += len(record.value or b"")
        if held > AT_ONCE:
            log.append(batch)
            batch, held = [], 0
    log.append(batch)


def limited(
    config: Path, limit: int, *arguments: str, until: Callable[[], bool] = lambda: False
) -> Ran:
    """`headwater run CONFIG …`, killed where it passes the limit, or once `until` is true."""
    process = subprocess.Popen(
        [HEADWATER, "run", str(config), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    peak, deadline = 0, time.monotonic() + 20 * PATIENCE
    try:
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError, IndexError):
                told = Path(f"/proc/{process.pid}/status").read_text()
                peak = max(peak, int(told.split("VmHWM:")[1].split()[0]) * 1024)
            if peak > limit or until():
                break
            time.sleep(0.01)
    finally:
        process.kill()
        said, _ = process.communicate()
    return Ran(process.returncode, peak, said)


def violations(log: Log, name: str, kind: str, count: int) -> list[str]:
    """What is lost or doubled once all of it was drained."""
    parts = [Partition(f"{name}-predictions", n) for n in range(PARTITIONS)]
    keys: Counter[bytes | None] = Counter()
    for chunk in log.read(log.beginning_offsets(parts), log.end_offsets(parts)):
        keys.update(chunk.keys)
    dead = Partition(f"{name}-dead-letters", 0)
    letters: Counter[bytes | None] = Counter()
    for chunk in log.read(log.beginning_offsets([dead]), log.end_offsets([dead])):
        letters.update(chunk.keys)
    broken = {"dead": 1, "mixed": 4}.get(kind, 0)
    bad = {b"%d" % i for i in range(count) if broken and i % broken == (2 if broken > 1 else 0)}
    good = {b"%d" % i for i in range(count)} - bad
    out = []
    for what, found, wanted in (("prediction", keys, good), ("dead letter", letters, bad)):
        out += [f"{what} of {key!r} is missing" for key in sorted(wanted - found.keys())]
        out += [
            f"{what} of {key!r} was doubled, it came {n} times" for key, n in found.items() if n > 1
        ]
        out += [f"{what} of {key!r} is nobody's" for key in found.keys() - wanted]
    return out


def memory_round(
    log: Log, url: str, directory: Path, kind: str, count: int, limit: int, kills: int
) -> tuple[list[str], int]:
    """Drain the largest records under the limit with kills in between, then replay all of them.

    Then a journal of one entry, as a version without a bound wrote it, is replayed too.

    Returns
    -------
    list of str
        What was violated.
    int
        The highest peak in bytes.
    """
    name = f"memory-{kind}-{time.time_ns():x}"
    journal = Partition(f"{name}-journal", 0)
    config = configure(directory, name, url, kind)
    fill(log, name, kind, count)
    ran = []
    for turn in range(kills):
        end = log.end_offsets([journal])[journal] + 2 + count // 16 // (kills + 1)

        def reached(end: int = end) -> bool:
            return log.end_offsets([journal])[journal] >= end

        ran.append((f"kill {turn}", limited(config, limit, "--drain", until=reached)))
    ran.append(("drained", limited(config, limit, "--drain")))
    out = violations(log, name, kind, count)
    shutil.rmtree(directory / "headwater-state")
    ran.append(("replayed", limited(config, limit, "--drain")))

    few = min(count, 600)  # in memory at once, more than the limit
    older = f"{name}-older"
    configure(directory, older, url, kind, UNBOUND)
    fill(log, older, kind, few)
    config = directory / f"{older}.toml"
    free = limited(config, 64 * limit, "--drain")
    out += [] if free.code == 0 else [f"the run without a bound ended with {free.code}: {free}"]
    shutil.rmtree(directory / "headwater-state")
    configure(directory, older, url, kind)
    ran.append(("replayed one entry", limited(config, limit, "--drain")))
    out += violations(log, older, kind, few)
    for what, run in ran:
        if run.peak > limit or run.code not in (0, -9) or (run.code and "kill" not in what):
            out.append(
                f"{kind}, {what}: ended with {run.code} at {run.peak // MIB} MiB: {run.said}"
            )
    return out, max(run.peak for _, run in ran)

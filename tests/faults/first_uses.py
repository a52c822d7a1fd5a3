"""First uses of the service's own functions, by eight threads at once, in a fresh process.

What is built when it is first needed may be seen half built by a second thread. Ordinary runs do
not meet that: the first use takes microseconds, and a thread keeps the interpreter for 5 ms. Here
eight threads wait for each other, then all call a function that nobody has called before, while the
interpreter changes threads every microsecond. The functions are the examples of all docstrings, in
an order drawn by the seed, after one of `OWN`, which have no example.

`python -m tests.faults.first_uses SEED [own]` is one such process, with `own` without the examples.
It prints what failed.
"""

from __future__ import annotations

import doctest
import faulthandler
import importlib
import io
import pkgutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

__all__ = ["OWN", "at_once", "main"]

THREADS = 8
SWITCH_SECONDS = 1e-6
PACKAGES = ("stream", "consumers", "headwater")
# Examples of what belongs to one thread or to the process, and of programs that end.
ALONE = {"consumers.__main__", "headwater.__main__", "stream.checks.__main__"}

Use = Callable[[], Any]


def _snapshot() -> Use:
    """Its header has the types that a start reads first."""
    from consumers.journal.records import IdentityRecord
    from consumers.snapshots.format import SnapshotInfo, from_bytes, to_bytes
    from stream.data.state import State

    entry = IdentityRecord("svc", 0, {}, [], [], "born", {}, {})
    data = to_bytes(SnapshotInfo("svc", 0, 1, 1, 1, "id", {}, entry), State({"a": 1}, {}))
    return lambda: from_bytes(data)


def _peek() -> Use:
    from consumers.journal.records import IdentityRecord
    from consumers.snapshots.format import START, SnapshotInfo, header_size, peek, to_bytes
    from stream.data.state import State

    entry = IdentityRecord("svc", 0, {}, [], [], "born", {}, {})
    data = to_bytes(SnapshotInfo("svc", 0, 1, 1, 1, "id", {}, entry), State({"a": 1}, {}))
    return lambda: peek(data[START : START + header_size(data)])


def _marker() -> Use:
    """What a start reads that follows a death."""
    from consumers.base.records import Partition
    from consumers.service.crash_guard import CrashGuard, CrashNoteFile

    directory = Path(tempfile.mkdtemp())
    CrashGuard(CrashNoteFile(directory), 1, {}).begin({Partition("obs", 0): 5})
    return lambda: CrashGuard(CrashNoteFile(directory), 1, {})


def _statistics() -> Use:
    from consumers.journal.statistics import Statistics, from_bytes, to_bytes
    from stream.data.state import State

    data = to_bytes(Statistics(1, 1000, 2, {"": State({"n": 2})}))
    return lambda: from_bytes(data)


def _schemas() -> Use:
    from consumers.codecs.schemas import SchemaBook, StoredSchema

    book = SchemaBook()
    book.add(7, StoredSchema("AVRO", '"string"'))
    header = book.to_header()
    return lambda: SchemaBook().load(header)


def _labels() -> Use:
    from consumers.codecs.json import JsonLabels

    return lambda: JsonLabels().decode([None], [b'{"id":"1","label":"a"}'])


def _observations() -> Use:
    from consumers.codecs.json import JsonObservations
    from stream.data.schema import Schema

    schema = Schema.of(a="numeric", b="binary", c="categorical", d="text")
    value = b'{"id":"1","a":1,"b":true,"c":"x","d":"hello world"}'
    return lambda: JsonObservations(schema, "id", "label").decode([None] * 9, [value] * 9)


def _avro() -> Use:
    from consumers.codecs.registry import wire_format
    from consumers.codecs.schemas import StoredSchema

    schema = StoredSchema("AVRO", '{"type":"record","name":"R","fields":[]}')
    return lambda: wire_format("avro").reader(schema, None)


def _mail() -> Use:
    from consumers.mail.document import mail_document

    value = (
        b"From: =?utf-8?q?A?= <a@example.co.uk>\r\nSubject: Hi\r\nContent-Type: text/html; "
        b"charset=koi8-r\r\n\r\n<a href='http://www.example.com/x'>free</a>"
    )
    return lambda: mail_document(value)


def _learner(name: str) -> Use:
    from consumers.config.learner import ModelConfig
    from consumers.shard.models import build

    def use() -> None:
        model = build(ModelConfig(type=name))
        for i in range(4):
            x = {"n": float(i), "c": "x"}
            model.predict_proba_one(x)
            model.learn_one(x, "ab"[i % 2])
        model.clone().load_state(model.to_state())

    return use


def _service() -> Use:
    """Two shards, each a thread; then once more, from their snapshots."""
    from tests.consumers.sharded import Sharded

    def use() -> None:
        with tempfile.TemporaryDirectory() as directory:
            service = Sharded(Path(directory), 2)
            service.feed(30)
            service.run()
            service.feed(30)
            service.run()

    return use


OWN: dict[str, Callable[[], Use]] = {
    "a snapshot": _snapshot,
    "the header of a snapshot": _peek,
    "the note of a crash": _marker,
    "statistics": _statistics,
    "schemas": _schemas,
    "labels": _labels,
    "observations": _observations,
    "avro": _avro,
    "a mail": _mail,
    "auto": lambda: _learner("auto"),
    "spam": lambda: _learner("spam"),
    "a service": _service,
}


def at_once(use: Use) -> list[str]:
    """Call it in eight threads at once; what failed, each once."""
    barrier = threading.Barrier(THREADS)
    failed: set[str] = set()

    def call() -> None:
        barrier.wait()
        try:
            use()
        except BaseException as error:
            failed.add(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=call) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(failed)


def examples() -> Iterator[tuple[str, Use]]:
    """The examples of each docstring, as a program; without those that show an error."""
    for package in map(importlib.import_module, PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name in ALONE:
                continue
            module = importlib.import_module(found.name)
            for test in doctest.DocTestFinder(exclude_empty=True).find(module):
                shown = [example for example in test.examples if example.exc_msg is None]
                if len(shown) == len(test.examples):
                    text = "".join(example.source for example in shown)
                    yield test.name, _program(text, test.name, test.globs)


def _program(text: str, name: str, names: dict[str, Any]) -> Use:
    program = compile(text, name, "exec")
    return lambda: exec(program, dict(names))


def main(seed: int, *, own: bool) -> int:
    """One process; 1 if something failed."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    rng = Random(seed)
    name = sorted(OWN)[seed % len(OWN)]
    use = OWN[name]()
    sys.setswitchinterval(SWITCH_SECONDS)
    failed = [f"{name}: {line}" for line in at_once(use)]
    every = [] if own else sorted(examples(), key=lambda each: each[0])
    rng.shuffle(every)
    with redirect_stdout(io.StringIO()):
        for name, use in every:
            failed += [f"{name}: {line}" for line in at_once(use)]
    print("\n".join(failed))  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), own="own" in sys.argv))

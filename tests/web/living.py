"""A service that lives while a test looks at its page: the real loop, log and server.

Rule: nothing sleeps without a condition it waits for, and nothing outlives its `with`.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from consumers.base.records import Outgoing
from consumers.commands.run import make_own_topics, served
from consumers.config import parse
from consumers.service.runner import Runner
from consumers.service.warm_up import compile_kernels
from consumers.transports import open_log
from tests.waiting import PATIENCE, until

__all__ = ["NOW", "Living", "living"]

NOW = 1_700_000_000_000
Found = TypeVar("Found")

CONFIG = """
name = "{name}"
[input]
transport = "{transport}"
observations = "obs"
format = "{wire}"
{inside}
[features]
{features}
[model]
type = "{model}"
[commit]
max_records = {max_records}
max_delay_ms = 10
[http]
port = 0
{more}
"""


class Living:
    """A running service, and the log that feeds it."""

    def __init__(self, runner: Runner, feed: Any, url: str, directory: Path | None = None) -> None:
        self.runner, self._feed, self.url, self.directory = runner, feed, url, directory
        self._sent = 0

    @property
    def status_feed(self):
        return self.runner.status_feed

    def send(self, n: int, *, classes: tuple[Any, ...] = ("left", "right")) -> None:
        """n more observations with their labels, and wait until all are committed."""
        start, self._sent = self._sent, self._sent + n
        self._feed.append(list(_records(range(start, self._sent), classes)))
        until(
            lambda: (
                self.status_feed.view is not None and self.status_feed.view.learned >= self._sent
            )
        )

    def send_keys(self, n: int, keys: tuple[str, ...]) -> None:
        """n observations of each tenant, and wait until they are committed. The labels of the last
        tenant have nothing to do with its records."""
        start, records = self._sent, []
        self._sent = start + n * len(keys)
        for i in range(start, self._sent):
            known, key = i % 2, keys[i // 2 % len(keys)]
            label = i // 2 // len(keys) % 2 if key == keys[-1] else known
            value = json.dumps({"id": f"r{i}", "tenant": key, "a": known + i % 5 / 10}).encode()
            records.append(Outgoing("obs", None, value, NOW + 10 * i, (), 0))
            told = json.dumps({"id": f"r{i}", "label": "ab"[label]}).encode()
            records.append(Outgoing("ans", None, told, NOW + 10 * i + 5, (), 0))
        self._feed.append(records)
        until(lambda: (v := self.status_feed.view) is not None and v.learned >= self._sent)

    def report(self, label: str, reporters: Iterable[str]) -> None:
        """The same label of the newest observation by each reporter, and wait until they are in."""
        value = {"id": f"r{self._sent - 1}", "label": label}
        told = [json.dumps({**value, "reporter": each}).encode() for each in reporters]
        seen = sum(self.status_feed.view.labels.values())
        self._feed.append([Outgoing("ans", None, each, NOW, (), 0) for each in told])
        until(lambda: sum(self.status_feed.view.labels.values()) >= seen + len(told))

    def tell(self, messages: Iterable[tuple[str, str]]) -> None:
        """Texts with their labels, and wait until all are learned."""
        self.teach(({"text": text}, label) for text, label in messages)

    def teach(self, examples: Iterable[tuple[dict[str, Any], str]]) -> None:
        """Observations without an id and their labels, and wait until all are learned."""
        records = []
        for x, label in examples:
            i, self._sent = self._sent, self._sent + 1
            value = json.dumps({"id": f"r{i}", **x}).encode()
            records.append(Outgoing("obs", None, value, NOW + 10 * i, (), 0))
            told = json.dumps({"id": f"r{i}", "label": label}).encode()
            records.append(Outgoing("ans", None, told, NOW + 10 * i + 5, (), 0))
        self._feed.append(records)
        until(lambda: (v := self.status_feed.view) is not None and v.learned >= self._sent)

    def spoil(self, *values: bytes) -> None:
        """Observations that cannot be used."""
        before = sum(self.status_feed.view.dead_letters.values()) if self.status_feed.view else 0
        self._feed.append([Outgoing("obs", b"k", value, NOW) for value in values])
        until(
            lambda: (
                (view := self.status_feed.view) is not None
                and sum(view.dead_letters.values()) == before + len(values)
            )
        )

    @contextmanager
    def asked(self, path: str, method: str = "GET") -> Iterator[http.client.HTTPResponse]:
        """The answer, unread; the connection ends with the `with`."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=PATIENCE)
        try:
            connection.request(method, path)
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        """The answer's document."""
        with self.asked(path) as answer:
            return json.load(answer)


def _records(numbers: Iterable[int], classes: tuple[Any, ...]) -> Iterator[Outgoing]:
    for i in numbers:
        label = classes[i % len(classes)]
        x = {"id": f"r{i}", "a": i % len(classes) + (i % 7) / 10, "b": (i * 37 % 11) / 11}
        yield Outgoing("obs", None, json.dumps(x).encode(), NOW + 10 * i, (), 0)
        told = json.dumps({"id": f"r{i}", "label": label}).encode()
        yield Outgoing("ans", None, told, NOW + 10 * i + 5, (), 0)


@contextmanager
def living(
    directory: Path,
    *,
    name: str = "svc",
    model: str = "GaussianNB",
    more: str = "",
    max_records: int = 50,
    transport: str = "memory",
    wire: str = "json",
    features: str = 'a = "numeric"\nb = "numeric"',
    inside: str = 'labels = "ans"',
) -> Iterator[Living]:
    """A service that runs, with its page. `inside`: keys of [input] for labels."""
    where = f"sqlite:{directory / 'log.db'}" if transport == "sqlite" else f"memory:{uuid4()}"
    text = CONFIG.format(
        name=name,
        model=model,
        transport=where,
        max_records=max_records,
        more=more,
        wire=wire,
        features=features,
        inside=inside,
    )
    config = parse(text, directory=directory)
    compile_kernels(config, lambda line: None)  # before anybody waits
    stop = threading.Event()
    with closing(open_log(where)) as feed, closing(open_log(where)) as log:
        for topic in config.input_topics:
            feed.create_topic(topic, 1)
        make_own_topics(config, feed)
        runner = Runner(config, log, stop)
        thread = threading.Thread(target=runner.run, name="living")
        with served(config, runner) as url:
            thread.start()
            try:
                until(lambda: runner.health().ready)
                yield Living(runner, feed, str(url), directory)
            finally:
                stop.set()
                thread.join(PATIENCE)

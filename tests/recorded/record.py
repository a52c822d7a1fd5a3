"""Record services for `test_recorded.py`: python -m tests.recorded.record DIRECTORY.

Run it only for something new: a recording is worth the age of the code that made it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from consumers.base.records import Outgoing
from consumers.transports import open_log
from consumers.transports.protocol import Log
from tests.consumers.deadly import DEADLY
from tests.kafka.broker import running_broker
from tests.recorded.log import read, save

ROOT = Path(__file__).parents[2]
NOW = 1_700_000_000_000
SPAM = ["cheap", "loan", "prize", "winner", "free", "click"]
HAM = ["meeting", "now", "lunch", "report", "agenda", "team"]

COMMON = """
[output]
predictions = "verdicts"
dead_letters = "refused"
[journal]
topic = "journal"
[commit]
max_records = 40
[snapshots]
every_records = 200
[http]
enabled = false
"""

MIXED = (
    """
name = "mixed"
[input]
transport = "TRANSPORT"
observations = "mails"
labels = "flags"
[labels]
corrections = true
max_pending = 120
[features]
age = "numeric"
size = "numeric"
country = "categorical"
known = "binary"
text = "text"
[model]
type = "MixedNB"
token_alpha = 1
[drift]
detectors = [
  {on = "error", type = "ADWIN", delta = 0.2, action = "reset"},
  {on = "feature:age", type = "PageHinkley", threshold = 5, action = "alert"},
]
keep = 100
warm_up = 30
"""
    + COMMON
)

CONTEST = (
    """
name = "contest"
[input]
transport = "TRANSPORT"
observations = "mails"
labels = "flags"
[features]
age = "numeric"
size = "numeric"
country = "categorical"
[model]
type = "GaussianNB"
half_life = 200
[decision]
losses.block = {spam = 0, ham = 5}
losses.pass = {spam = 1, ham = 0}
[[challenger]]
name = "near"
type = "KNNClassifier"
window = 60
[[challenger]]
name = "joint"
type = "MixedBayes"
[drift]
detectors = [{on = "log_loss", type = "PageHinkley", threshold = 10}]
action = "challenger"
warm_up = 30
"""
    + COMMON
)

SKIPS = (
    """
name = "skips"
[input]
transport = "TRANSPORT"
observations = "mails"
label = "flag"
[features]
a = "numeric"
b = "numeric"
[model]
type = "river:naive_bayes.GaussianNB"
"""
    + COMMON
)


def mails(n: int, partitions: int, seed: int, begin: int = 0) -> Iterator[Outgoing]:
    """Observations, and labels: late, early, twice, corrected, of the wrong kind, never."""
    random = Random(seed)
    for i in range(begin, begin + n):
        spam = random.random() < 0.4
        turned = spam ^ (i > 350)
        age, size = random.gauss(3.0 + 2.0 * turned, 1.0), random.randrange(50) + 40 * spam
        words = random.choices(SPAM if turned else HAM, k=random.randint(0, 6))
        x: dict[str, Any] = {"id": f"m{i}", "age": round(age, 3), "size": size}
        x |= {
            "country": random.choice("abcd"),
            "known": random.random() < 0.5,
            "text": " ".join(words),
        }
        for name in random.sample(sorted(x), random.choice([0, 0, 0, 1])):
            del x[name]
        at, key = NOW + 1_000 * i, b"m%d" % i
        value = json.dumps(x).encode()
        if random.random() < 0.03:
            value = random.choice(
                [value[:-3], b"[]", value.replace(b'"age": ', b'"age": "x"'), b""]
            )
        yield Outgoing("mails", key, value, at, (), i % partitions)
        label: Any = "spam" if spam else "ham"
        told = [label] if random.random() < 0.9 else []
        if random.random() < 0.08:
            told.append(random.choice(["spam", "ham", 7, None]))
        for said in told:
            late = at + random.choice([-2_000, 5_000, 20_000, 90_000])
            body = json.dumps({"id": f"m{i}", "label": said}).encode()
            yield Outgoing("flags", key, body, late, (), i % partitions)


def feed(log: Log, records: Iterator[Outgoing]) -> None:
    """Append in the order of time, as producers would."""
    log.append(sorted(records, key=lambda r: r.timestamp or 0))


class Recorder:
    """One service, run by its commands."""

    def __init__(
        self, directory: Path, name: str, config: str, transport: str, partitions: int
    ) -> None:
        self.home, self.name, self.text = directory, name, config
        (directory / "config.toml").write_text(config.replace("TRANSPORT", transport))
        self.log = open_log(transport)
        for topic in ("mails", "flags", "verdicts", "refused"):
            self.log.create_topic(topic, partitions)
        self.log.create_topic("journal", 1)

    def do(self, *words: str, module: str = "consumers") -> str:
        """One command; its standard output."""
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        while True:
            done = subprocess.run(
                [sys.executable, "-m", module, *words], cwd=self.home, env=env, capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                return done.stdout
            assert done.returncode == -9, (
                done.stderr
            )  # killed by a record: a supervisor starts it again

    def run(self, module: str = "consumers") -> None:
        """Up to the end of the inputs."""
        self.do("run", "config.toml", "--drain", module=module)

    def at(self) -> int:
        """The position after the journal's last record."""
        return [r.offset for r in read(self.log) if r.topic == "journal"][-1] + 1

    def save(self, into: Path, of: str, marks: list[int]) -> None:
        """Log, configuration, and what the model was at some positions of the journal."""
        expected = {}
        for position in sorted({*marks, self.at()}):
            shown = json.loads(self.do("rebuild", "config.toml", "--at", str(position), "--json"))
            expected[position] = {
                k: shown[k] for k in ("fingerprint", "records", "predictions", "learned")
            }
        (into / of).mkdir(parents=True, exist_ok=True)
        (into / of / "config.toml").write_text(self.text)
        (into / of / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        topics = {t: n for t, n in self.log.topics().items() if not t.startswith("__")}
        records = [r for r in read(self.log) if r.topic in topics]
        save(into / of / "log.xz", topics, records)
        size = (into / of / "log.xz").stat().st_size
        print(of, len(records), "records", size, "bytes", expected)  # noqa: T201


def mixed(into: Path, home: Path) -> None:
    """Corrections, dead letters, drift that resets, a rollback; on the embedded log."""
    service = Recorder(home, "mixed", MIXED, "sqlite:log.db", 1)
    os.chdir(home)
    feed(service.log, mails(220, 1, seed=1))
    service.run()
    first = service.at()
    feed(service.log, mails(120, 1, seed=2, begin=220))
    service.run()
    service.do("rollback", "config.toml", "--to", str(first), "--reason", "wrong labels", "--yes")
    feed(service.log, mails(160, 1, seed=3, begin=340))
    service.run()
    service.save(into, "mixed-sqlite", [first])
    service.log.close()


def contest(into: Path, home: Path, transport: str, of: str) -> None:
    """Challengers, promotions by people and by drift, decisions, a rollback; two partitions."""
    service = Recorder(home, "contest", CONTEST, transport, 2)
    feed(service.log, mails(200, 2, seed=4))
    service.run()
    first = service.at()
    service.do("promote", "config.toml", "near", "--reason", "a test", "--yes")
    feed(service.log, mails(100, 2, seed=5, begin=200))
    service.run()
    second = service.at()
    feed(service.log, mails(60, 2, seed=6, begin=300))
    service.run()
    service.do("rollback", "config.toml", "--to", str(second), "--reason", "again", "--yes")
    feed(service.log, mails(140, 2, seed=7, begin=360))
    service.run()
    service.save(into, of, [first, second])
    service.log.close()


def skips(into: Path, home: Path) -> None:
    """A river model that dies of two records, which are found and passed over."""
    service = Recorder(home, "skips", SKIPS, "sqlite:log.db", 1)
    random = Random(8)
    for i in range(60):
        a = DEADLY if i in (17, 41) else random.gauss(0.0, 1.0)
        x = {"id": str(i), "a": a, "b": random.random(), "flag": random.random() < 0.5}
        service.log.append([Outgoing("mails", b"%d" % i, json.dumps(x).encode(), NOW + i, (), 0)])
    service.run("tests.consumers.deadly")
    service.save(into, "skips-sqlite", [])
    service.log.close()


def main() -> None:
    """All of them."""
    into = Path(sys.argv[1]).resolve()
    only = sys.argv[2:] or ["mixed", "contest", "skips", "kafka"]
    for name in only:
        home = Path(tempfile.mkdtemp())
        os.chdir(home)
        if name == "mixed":
            mixed(into, home)
        if name == "skips":
            skips(into, home)
        if name == "contest":
            contest(into, home, "sqlite:log.db", "contest-sqlite")
        if name == "kafka":
            with running_broker() as bootstrap:
                contest(into, home, f"kafka://{bootstrap}", "contest-kafka")
        os.chdir(ROOT)
        shutil.rmtree(home)


if __name__ == "__main__":
    main()

"""How much code one record needs: python -m benchmarks.reading [--list] [--json]

A reader of this program reads functions and files, so this counts what one observation and its
label cross in a service that runs: from the end of the commit before theirs to the end of the
commit of the label, on an embedded log. The label comes when the observation is committed, so
that two runs count the same. Kernels count too, because they run as Python here.
Then come statements by room, without imports, `__all__` and docstrings. `--list` names the files
and their functions. `--write` makes today's figures those that the tests hold: they fail where one
is larger by more than 2 %.
"""

from __future__ import annotations

import argparse
import ast
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
HELD = Path(__file__).with_suffix(".json")
MORE = 1.02  # of a held figure: what a change may add
PACKAGES = ("stream", "consumers", "headwater")
KERNELS = "HEADWATER_KERNELS"
BEFORE = 30  # observations with labels, so that nothing is done for the first time
CONFIG = """
name = "payments"
[input]
transport = "sqlite:{directory}/log.db"
observations = "payments"
labels = "payments-labels"
[features]
amount = "numeric"
balance = "numeric"
age = "numeric"
country = "categorical"
online = "binary"
[snapshots]
directory = "{directory}/snapshots"
[http]
enabled = false
"""


@dataclass
class Crossed:
    """What ran between two moments of one thread.

    Attributes
    ----------
    all, commit
        Functions by their code: all, and those within a commit.
    """

    all: set[CodeType] = field(default_factory=set)
    commit: set[CodeType] = field(default_factory=set)
    _depth: int = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """What `sys.setprofile` calls."""
        code = frame.f_code
        if event not in ("call", "return") or not ours(code):
            return
        around = code.co_name == "advance" and code.co_filename.endswith("service/commit.py")
        if event == "return":
            self._depth -= around
            return
        self._depth += around
        self.all.add(code)
        if self._depth:
            self.commit.add(code)


def ours(code: CodeType) -> bool:
    """Whether it is a function of this program: no module, no class, and no part of a function."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in PACKAGES:
        return False
    if path.is_relative_to(ROOT / "stream" / "kernel"):  # it runs kernels as Python
        return False
    return not code.co_name.startswith("<") and code.co_flags & 1 == 1  # 1: it has fast locals


def record_of(i: int) -> dict[str, Any]:
    """An observation."""
    country = ("de", "fr", "in")[i % 3]
    amount = float(i % 7) + (40.0 if i % 5 == 0 else 0.0)
    numbers = {"amount": amount, "balance": 100.0 - i % 11, "age": 20 + i % 50}
    return {"id": str(i), **numbers, "country": country, "online": i % 2 == 0}


def label_of(i: int) -> dict[str, Any]:
    """Its label."""
    return {"id": str(i), "label": "fraud" if i % 5 == 0 else "ok"}


def crossed() -> Crossed:
    """Run a service, and look at one observation and its label."""
    from consumers.base.records import Outgoing
    from consumers.config import parse
    from consumers.service.runner import Runner
    from consumers.transports import open_log

    seen, stop = Crossed(), threading.Event()
    with tempfile.TemporaryDirectory() as directory:
        config = parse(CONFIG.format(directory=directory))
        with closing(open_log(config.input.transport)) as log:
            for suffix in ("", "-labels", "-predictions", "-dead-letters", "-journal"):
                log.create_topic(f"{config.name}{suffix}", 1)

            def send(topic: str, i: int, record: dict[str, Any]) -> None:
                key, now = str(i).encode(), 1_700_000_000_000 + i
                log.append([Outgoing(topic, key, json.dumps(record).encode(), now)])

            def committed(_: object, view: Any) -> None:
                sys.setprofile(None)
                if view.learned > BEFORE:
                    stop.set()
                elif view.learned == BEFORE:
                    if view.observations == BEFORE:
                        send(config.input.observations, BEFORE, record_of(BEFORE))
                    else:
                        send(config.input.labels, BEFORE, label_of(BEFORE))
                    sys.setprofile(seen)

            for i in range(BEFORE):
                send(config.input.observations, i, record_of(i))
                send(config.input.labels, i, label_of(i))
            Runner(config, log, stop, subscribers=[committed]).run()
    return seen


def statements() -> dict[str, int]:
    """Statements by room."""
    counts: Counter[str] = Counter()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            room = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
            counts[room] += sum(1 for _ in _statements(ast.parse(path.read_text())))
    return dict(counts)


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            continue
        yield node


def files() -> int:
    """Files of the program."""
    return sum(1 for package in PACKAGES for _ in (ROOT / package).rglob("*.py"))


def counted(seen: Crossed) -> dict[str, int]:
    """The figures that a test holds."""
    paths = {code.co_filename for code in seen.all}
    return {
        "functions": len(seen.all),
        "files": len(paths),
        "lines of these files": sum(len(Path(p).read_text().splitlines()) for p in paths),
        "functions within the commit": len(seen.commit),
        "files within the commit": len({code.co_filename for code in seen.commit}),
        "statements": sum(statements().values()),
        "files of the program": files(),
    }


def grown(now: Mapping[str, int], held: Mapping[str, int]) -> list[str]:
    """A line for each figure that is too large."""
    return [
        f"{name}: {now[name]:,}, and {before:,} are held; make it smaller, or hold today's figures "
        "on purpose by `python -m benchmarks.reading --write`"
        for name, before in held.items()
        if now[name] > MORE * before
    ]


def named(codes: set[CodeType]) -> Mapping[str, list[str]]:
    """File to its functions."""
    out: defaultdict[str, list[str]] = defaultdict(list)
    for code in codes:
        path = Path(code.co_filename).relative_to(ROOT)
        out[str(path)].append(code.co_qualname)
    return {path: sorted(out[path]) for path in sorted(out)}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name all files and functions")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.add_argument("--write", action="store_true", help=f"hold them in {HELD.name}")
    options = parser.parse_args()
    if os.environ.get(KERNELS) != "interpreted":  # read once, when kernels are imported
        command = [sys.executable, "-m", "benchmarks.reading", *sys.argv[1:]]
        environment = os.environ | {KERNELS: "interpreted"}
        done = subprocess.run(  # noqa: S603  this program
            command, env=environment, cwd=ROOT, check=False
        )
        sys.exit(done.returncode)
    logging.disable()
    seen = crossed()
    figures = counted(seen)
    if options.write:
        HELD.write_text(json.dumps(figures, indent=2) + "\n")
    text = json.dumps(figures) if options.json else "\n".join(lines(figures))
    if options.list:
        text = "\n".join(
            [text, "", *(f"{path}: {', '.join(f)}" for path, f in named(seen.all).items())]
        )
    sys.stdout.write(f"{text}\n")


def lines(figures: Mapping[str, int]) -> Iterator[str]:
    """The figures, and the statements of each room."""
    yield "one observation and its label, from poll to commit:\n"
    yield from (f"{value:>8,}  {name}" for name, value in figures.items())
    yield "\nstatements by room:\n"
    rooms = sorted(statements().items(), key=lambda each: -each[1])
    yield from (f"{count:>8,}  {room}" for room, count in rooms)


if __name__ == "__main__":
    main()

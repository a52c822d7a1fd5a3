"""tests/run, in its environment: python -m tests.suite [--all] [arguments of pytest]

Side by side: what is checked by reading (`tests.lint`), the machine code of the kernels, and what
this machine lacks, with a broker where a chosen test needs one. Then pytest. A step that succeeded
with the same inputs is left out.
"""

from __future__ import annotations

import importlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.metadata import version

from tests.kafka.broker import bound
from tests.suite.environment import install
from tests.suite.needs import Chosen, lacking, needed
from tests.suite.plugin import AROUND
from tests.suite.steps import ROOT, forget, step, tracked

RUNNING: set[subprocess.Popen[bytes]] = set()
MADE_BY = ("mypy", "ruff", "codespell")  # what finds by its own version


def main(arguments: Sequence[str]) -> int:
    """Everything around pytest, and pytest; its exit code."""
    handle_ends()
    chosen = Chosen.of([*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *arguments])
    with ExitStack() as until_the_end, ThreadPoolExecutor() as side_by_side:
        works = [
            side_by_side.submit(_kernels),
            side_by_side.submit(_prepare, chosen, until_the_end),
        ]
        if not chosen.few:
            works.append(side_by_side.submit(_lint))
        for work in works:
            work.result()
        code = _run(sys.executable, "-m", "pytest", *AROUND, *arguments)
    if chosen.few:
        print("not run: python -m tests.lint (style, types, prose)")  # noqa: T201
    return code


def handle_ends() -> None:
    """End what runs here with this process, when it is asked to end or its terminal is closed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # that of nohup
            signal.signal(number, _stop)


def _run(*command: str) -> int:
    """Run a command to its end; its exit code. Ctrl-C is for the command."""
    with subprocess.Popen(command, cwd=ROOT) as running:
        RUNNING.add(running)
        try:
            while True:
                try:
                    return running.wait()
                except KeyboardInterrupt:
                    continue
        finally:
            RUNNING.discard(running)


def _stop(number: int, _frame: object) -> None:
    """End as after Ctrl-C, which pytest takes as the wish to end what its tests have started."""
    for running in [*RUNNING]:
        running.send_signal(signal.SIGINT)
    sys.exit(128 + number)


def _lint() -> None:
    def work() -> None:
        if _run(sys.executable, "-m", "tests.lint"):
            sys.exit("tests/run: mend what stands above; `python -m tests.lint` repeats it")

    step("lint", [*tracked(), sys.version, *map(version, MADE_BY)], work)


def _kernels() -> None:
    files = [path for path in tracked("stream", "consumers") if "_kernels" in str(path)]
    if not any(next((ROOT / name).rglob("*.nbi"), None) for name in ("stream", "consumers")):
        forget("kernels")
    versions = [sys.version, version("numba"), version("llvmlite"), version("numpy")]
    # Interpreted kernels leave nothing behind: a run of compiled ones has to do the step again.
    versions.append(os.environ.get("HEADWATER_KERNELS", ""))

    def work() -> None:
        if _run(sys.executable, "-m", "tests.kernels"):
            sys.exit("tests/run: the kernels could not be compiled")

    step("kernels", [*files, ROOT / "tests" / "kernels.py", *versions], work)


def _prepare(chosen: Chosen, until_the_end: ExitStack) -> None:
    """What this machine lacks, and a broker for all tests of this run."""
    packages = sorted({name for need in lacking(chosen) for name in need.packages.split()})
    if packages and os.geteuid() == 0:
        print(f"== packages: {', '.join(packages)}", flush=True)  # noqa: T201
        _apt(packages)
    extras = sorted({need.extra for need in needed(chosen) if need.extra})
    if extras:  # also where all are there: pyproject.toml may now ask for other versions
        install("test", *extras, again=any(need.extra for need in lacking(chosen)))
        importlib.invalidate_caches()
    for need in lacking(chosen):
        print(f"== {need.name} is not there; its tests fail or are skipped", flush=True)  # noqa: T201
    names = {need.name for need in needed(chosen) if need.there()}
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if "Kafka" in names and not given and not chosen.few:  # for few tests, only if one asks
        _start_broker(until_the_end)


def _start_broker(until_the_end: ExitStack) -> None:
    """One for all processes of the run. Without an address each test says what is wrong."""
    command = [*bound("TERM"), sys.executable, "-m", "tests.kafka.broker"]
    broker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    until_the_end.callback(broker.wait)
    until_the_end.callback(broker.terminate)
    assert broker.stdout is not None
    if address := broker.stdout.readline().strip():
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = address


def _apt(packages: Sequence[str]) -> None:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    for command in (["apt-get", "update", "-qq"], install):
        done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"tests/run: {' '.join(command)}: {(done.stdout + done.stderr)[-500:]}")
    # The tests start a Prometheus of their own; the package starts one for the machine.
    subprocess.run(["service", "prometheus", "stop"], capture_output=True, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

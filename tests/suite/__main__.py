"""tests/run, in its environment: python -m tests.suite [--all] [arguments of pytest]

Side by side: what is checked by reading (`tests.lint`), the machine code of the kernels, and what
this machine lacks, with a broker where a chosen test needs one. Then pytest. A step that succeeded
with the same inputs is left out.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.metadata import version

from tests.suite.environment import install
from tests.suite.needs import Chosen, lacking, needed
from tests.suite.steps import ROOT, forget, step, tracked

# Three processes keep two cores busy: many tests wait for a broker or for a process that they
# killed. In the order of the files: the acceptance tests, few and long, begin and do not end it on
# one core. A process that dies ends the run: xdist with loadscope can wait forever after it
# started another one.
PYTEST = """
--numprocesses 3 --dist loadscope --no-loadscope-reorder --max-worker-restart 0 --durations 10
""".split()  # noqa: SIM905


def main(arguments: Sequence[str]) -> int:
    """Everything around pytest, and pytest; its exit code."""
    chosen = Chosen.of(arguments)
    with ExitStack() as until_the_end, ThreadPoolExecutor() as side_by_side:
        works = [
            side_by_side.submit(_kernels),
            side_by_side.submit(_prepare, chosen, until_the_end),
        ]
        if not chosen.few:
            works.append(side_by_side.submit(_lint))
        for work in works:
            work.result()
        code = _run(sys.executable, "-m", "pytest", *PYTEST, *arguments)
    if chosen.few:
        print("not run: python -m tests.lint (style, types, prose)")  # noqa: T201
    return code


def _run(*command: str) -> int:
    """Run a command to its end; its exit code. Ctrl-C is for the command."""
    with subprocess.Popen(command, cwd=ROOT) as running:
        while True:
            try:
                return running.wait()
            except KeyboardInterrupt:
                continue


def _lint() -> None:
    def work() -> None:
        if _run(sys.executable, "-m", "tests.lint"):
            sys.exit("tests/run: mend what stands above; `python -m tests.lint` repeats it")

    step("lint", [*tracked(), sys.version], work)


def _kernels() -> None:
    files = [path for path in tracked("stream", "consumers") if "_kernels" in str(path)]
    if not any(next((ROOT / name).rglob("*.nbi"), None) for name in ("stream", "consumers")):
        forget("kernels")
    versions = [sys.version, version("numba"), version("llvmlite"), version("numpy")]

    def work() -> None:
        if _run(sys.executable, "-m", "tests.kernels"):
            sys.exit("tests/run: the kernels could not be compiled")

    step("kernels", [*files, ROOT / "tests" / "kernels.py", *versions], work)


def _prepare(chosen: Chosen, until_the_end: ExitStack) -> None:
    """What this machine lacks, and a broker for all tests of this run."""
    missing = lacking(chosen)
    packages = sorted({name for need in missing for name in need.packages.split()})
    if packages and os.geteuid() == 0:
        print(f"== packages: {', '.join(packages)}", flush=True)  # noqa: T201
        _apt(packages)
    extras = sorted({need.extra for need in missing if need.extra})
    if extras:
        install("test", *extras)
        importlib.invalidate_caches()
    for need in lacking(chosen):
        print(f"== {need.name} is not there; its tests fail or are skipped", flush=True)  # noqa: T201
    names = {need.name for need in needed(chosen) if need.there()}
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if "Kafka" in names and not given and not chosen.few:  # for few tests, only if one asks
        _start_broker(until_the_end)


def _start_broker(until_the_end: ExitStack) -> None:
    """One for all processes of the run. Without an address each test says what is wrong."""
    command = [sys.executable, "-m", "tests.kafka.broker"]
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

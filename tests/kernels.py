"""Fill the kernel cache before the first test: python -m tests.kernels

Rule: a test that starts a service waits for the service, not for the compiler. numba keeps machine
code on disk, so two processes compile everything once, each kernel in one of them, and every later
process only loads it. The size of the code is bounded here: a compiler takes time for each byte,
and a first use of a machine waits for it.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import consumers
import stream
from consumers.cli import silence_compilation_warnings
from consumers.config import parse
from consumers.config.propose import spam_filter
from consumers.service.warm_up import compile_kernels
from consumers.shard.models import build
from consumers.transports.registry import transports
from stream.checks import yield_laws
from stream.checks.__main__ import shipped
from stream.kernel.tiers import VARIABLE

MOST_BYTES = 20_000_000  # of machine code; 14 million in 2026

CONFIG = """
name = "kernels"
[input]
transport = "kafka://localhost:9092"
observations = "observations"
labels = "labels"
[features]
number = "numeric"
[model]
type = "GaussianNB"
[[challenger]]
name = "other"
type = "GaussianNB"
[[drift.detectors]]
on = "error"
type = "ADWIN"
"""
# The demo's model has combinations of learners that are no learner of their own.
AUTO = CONFIG.replace('[model]\ntype = "GaussianNB"', '[model]\ntype = "auto"')
SPAM = spam_filter("kernels", "json", 0.01, corrections=True)
CONFIGS = {"service": CONFIG, "auto": AUTO, "filter": SPAM}


def main() -> None:
    """Compile what the learners' laws and a service run; a line each."""
    os.environ[VARIABLE] = "compiled"
    silence_compilation_warnings()
    began = time.monotonic()
    names = [*CONFIGS, *(type(learner).__name__ for learner in shipped())]
    with ProcessPoolExecutor(2) as pool:
        running = {pool.submit(compile_one, number): name for number, name in enumerate(names)}
        for done, future in enumerate(as_completed(running), 1):
            future.result()
            took = time.monotonic() - began
            print(f"{took:5.0f} s  {done}/{len(names)} {running[future]}", flush=True)  # noqa: T201
    if (size := machine_code()) > MOST_BYTES:
        sys.exit(f"the kernels are {size:,} bytes of machine code, more than {MOST_BYTES:,}")


def machine_code() -> int:
    """Bytes of the kernels on disk that this version of Python loads."""
    return sum(
        path.stat().st_size
        for package in (stream, consumers)
        for path in Path(package.__path__[0]).rglob(f"*.{sys.implementation.cache_tag}.*.nbc")
    )


def compile_one(number: int) -> None:
    """The kernels of a service, which all learners share some of, or of one learner."""
    if number < len(CONFIGS):
        config = parse([*CONFIGS.values()][number], directory=Path())
        compile_kernels(config, lambda line: None)
        for transport in transports().values():  # that of the configuration is one of them
            transport.warm_up()
        learner = build(config.model)
        for i in range(4):  # a library's user has one record at a time
            x = {"number": float(i)}
            learner.predict_proba_one(x)
            learner.learn_one(x, i % 2 == 0)
        return
    learner = shipped()[number - len(CONFIGS)]
    for law in yield_laws(learner):
        law(learner)


if __name__ == "__main__":
    main()

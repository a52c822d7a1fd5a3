"""How `tests/run` ends, and what its steps depend on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.suite import __main__ as run
from tests.suite.steps import ROOT

# The command that it runs says that it is there, and at Ctrl-C that it ends.
RUNS = """
import signal, sys
from tests.suite import __main__ as run
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where these tests run under nohup
run.handle_ends()
run._run(sys.executable, "-c", '''
import time
try:
    print("here", flush=True)
    time.sleep(300)
except KeyboardInterrupt:
    print("ended", flush=True)
''')
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_end_of_a_run_is_the_end_of_what_it_runs(number: signal.Signals) -> None:
    """Also where the signal is for it alone, as that of a container is."""
    command = [sys.executable, "-c", RUNS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "here\n"
        os.kill(started.pid, number)
        said = started.stdout.read()

    assert said == "ended\n"
    assert started.returncode == 128 + number


def test_run_goes_on_under_nohup() -> None:
    """Which has it ignore the end of the terminal."""
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        run.handle_ends()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGHUP, before[1])


def test_steps_depend_on_the_versions_of_what_they_run_and_on_the_way_of_kernels(
    monkeypatch,
) -> None:
    """A newer ruff finds more; interpreted kernels leave no machine code behind."""
    inputs = {}
    monkeypatch.setattr(run, "step", lambda name, given, work: inputs.update({name: given}))
    monkeypatch.setenv("HEADWATER_KERNELS", "interpreted")

    run._lint()
    run._kernels()

    assert {version("mypy"), version("ruff"), version("codespell")} <= {*inputs["lint"]}
    assert "interpreted" in inputs["kernels"]
    assert ROOT / "stream" / "kernel" / "compiled.py" in inputs["kernels"]

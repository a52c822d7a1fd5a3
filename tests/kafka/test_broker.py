"""The broker of the tests ends with what started it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

import pytest

from tests.kafka.broker import installed_java
from tests.suite.steps import ROOT
from tests.waiting import until


@pytest.mark.kafka
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv, as of Linux")
def test_broker_ends_with_a_run_that_could_not_end_it() -> None:
    """Or each closed terminal would leave a Java of half a gigabyte."""
    if installed_java() is None:
        pytest.skip("a broker in Docker is stopped by Docker")
    own = {key: value for key, value in os.environ.items() if key != "KAFKA_BOOTSTRAP_SERVERS"}
    command = [sys.executable, "-m", "tests.kafka.broker"]
    with subprocess.Popen(command, cwd=ROOT, env=own, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        host, _, port = started.stdout.readline().strip().partition(":")
        assert _listens(host, int(port))
        started.kill()

    until(lambda: not _listens(host, int(port)), "the end of the broker")


def _listens(host: str, port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((host, port)) == 0

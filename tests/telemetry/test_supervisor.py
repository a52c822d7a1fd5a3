"""What systemd is sent: one datagram a change, and signs of life while the loop makes progress."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.health import Health
from consumers.cli import main
from consumers.telemetry.supervisor import notifying
from tests.waiting import PATIENCE


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of systemd, with a short name, because addresses are limited to 107 bytes."""
    monkeypatch.chdir(tmp_path)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind("\0headwater-test-" + str(os.getpid()))
        listening.settimeout(PATIENCE)
        yield listening


@pytest.fixture
def environment(systemd: socket.socket) -> dict[str, str]:
    """What systemd gives its process."""
    return {"NOTIFY_SOCKET": "@" + systemd.getsockname()[1:].decode()}


def lines(systemd: socket.socket, until: str) -> list[str]:
    """The lines up to this one."""
    found: list[str] = []
    while until not in found:
        found += systemd.recv(4096).decode().splitlines()
    return found


def states(*healths: Health) -> Iterator[Health]:
    """Each once, then the last for ever."""
    yield from healths
    while True:
        yield healths[-1]


def report(
    environment: dict[str, str], systemd: socket.socket, healths: Sequence[Health], until: str
) -> list[str]:
    """What is sent for these healths up to a line, and at the end."""
    following = states(*healths)
    with notifying(lambda: next(following), environment, look_seconds=0.001):
        found = lines(systemd, until)
    return [*found, *lines(systemd, "STOPPING=1")]


def test_service_is_ready_when_it_is_live(
    environment: dict[str, str], systemd: socket.socket
) -> None:
    """Until then each report extends the time for the start; a replay may take hours."""
    replaying = Health("replaying", "1,200 records\nremain")
    found = report(environment, systemd, [Health("starting"), replaying, Health("live")], "READY=1")

    assert found == [
        "STATUS=starting",
        "EXTEND_TIMEOUT_USEC=60000000",
        "STATUS=replaying: 1,200 records remain",
        "STATUS=live",
        "READY=1",
        "STOPPING=1",
    ]


@pytest.mark.parametrize("state", ["standby", "degraded"])
def test_standby_and_a_service_that_only_predicts_are_ready(
    state: str, environment: dict[str, str], systemd: socket.socket
) -> None:
    """To restart them would not help."""
    found = report(environment, systemd, [Health(state)], "READY=1")  # type: ignore[arg-type]

    assert found.count("READY=1") == 1


def test_stalled_loop_gives_no_sign_of_life(
    environment: dict[str, str], systemd: socket.socket
) -> None:
    """So systemd restarts it; before, there was one sign each half of the time."""
    watched = environment | {"WATCHDOG_USEC": "2000", "WATCHDOG_PID": str(os.getpid())}
    following = states(Health("live"), Health("live"), Health("stalled", "no commit"))
    with notifying(lambda: next(following), watched, look_seconds=0.001):
        found = lines(systemd, "STATUS=stalled: no commit")
        systemd.settimeout(0.05)
        with pytest.raises(TimeoutError):
            systemd.recv(4096)

    assert found.count("WATCHDOG=1") >= 1


@pytest.mark.parametrize(
    "more", [{}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}]
)
def test_without_a_watchdog_of_this_process_there_are_no_signs_of_life(
    more: dict[str, str], environment: dict[str, str], systemd: socket.socket
) -> None:
    """The variables may be those of a parent."""
    assert "WATCHDOG=1" not in report(environment | more, systemd, [Health("live")], "READY=1")


@pytest.mark.parametrize("address", ["", "relative", "/does/not/exist"])
def test_service_without_systemd_runs_as_it_does(address: str) -> None:
    """No socket, or one that is gone, is no error."""
    with notifying(lambda: Health("live"), {"NOTIFY_SOCKET": address}, look_seconds=0.001):
        pass


def test_run_reports_to_systemd(
    environment: dict[str, str], systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole command, on an embedded log."""
    monkeypatch.setenv("NOTIFY_SOCKET", environment["NOTIFY_SOCKET"])
    assert main(["init", "shop", "--fields", "price:numeric", "--label", "paid"]) == 0
    config = Path("shop.toml")
    text = config.read_text().replace("port = 8321", "enabled = false")
    config.write_text(text.replace('"auto"', '"GaussianNB"'))
    assert main(["check", "shop.toml", "--create"]) == 0
    assert main(["run", "shop.toml", "--drain"]) == 0

    found = lines(systemd, "STOPPING=1")
    assert found[0].startswith("STATUS=starting")

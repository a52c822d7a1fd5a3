"""The units of docker/systemd, by systemd's own judgement and against the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError, FencedError
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "docker/systemd").iterdir())
ANALYZE = shutil.which("systemd-analyze")


def instances(directory: Path) -> list[str]:
    """The units as those of an instance, with a program and a user of this machine."""
    for unit in UNITS:
        text = unit.read_text().replace("/opt/headwater/bin/headwater", "/bin/true")
        text = re.sub(r"^(User|Group)=headwater$", r"\1=daemon", text, flags=re.MULTILINE)
        (directory / unit.name.replace("@", "@payments")).write_text(text)
    return [str(path) for path in sorted(directory.iterdir())]


@pytest.mark.skipif(ANALYZE is None, reason="needs systemd-analyze (Debian: systemd)")
def test_units_are_valid_and_hardened(tmp_path: Path) -> None:
    """Unknown or wrong directives are errors; the exposure is at most 2 of 10."""
    units = instances(tmp_path)
    verify = [str(ANALYZE), "verify", "--man=no", "--recursive-errors=no", *units]
    verified = subprocess.run(verify, capture_output=True, text=True, timeout=PATIENCE)
    services = [unit for unit in units if unit.endswith(".service")]
    security = [str(ANALYZE), "security", "--offline=yes", "--threshold=20", *services]
    secured = subprocess.run(security, capture_output=True, text=True, timeout=PATIENCE)

    assert (verified.returncode, verified.stderr) == (0, "")
    assert secured.returncode == 0, secured.stdout[-300:]


def test_service_is_not_restarted_where_that_does_not_help() -> None:
    """The exit codes of a wrong configuration and of a fenced process."""
    text = (ROOT / "docker/systemd/headwater@.service").read_text()

    assert f"RestartPreventExitStatus={ConfigError.exit_code} {FencedError.exit_code}" in text
    assert "Type=notify" in text
    assert "WatchdogSec=" in text

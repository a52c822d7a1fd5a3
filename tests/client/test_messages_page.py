"""docs/howto/messages.md: its Python runs beside the service that the page sets up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from consumers.cli import main
from tests.acceptance.service import Service
from tests.commands.ports import other_port

PAGE = (Path(__file__).parents[2] / "docs/howto/messages.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_python_of_the_page_runs_beside_its_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unsure, because nothing was learned."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--spam", "--format", "json", "--name", "sms"]) == 0
    other_port("sms.toml")
    assert main(["check", "sms.toml", "--create"]) == 0
    capsys.readouterr()
    with Service(tmp_path / "sms.toml") as running:
        url = "http://" + running.wait_said(r"metrics on http://(\S+)/metrics")[1]
        for code in BLOCKS:
            exec(compile(code.replace("http://localhost:8321", url), "messages.md", "exec"), {})

    assert len(BLOCKS) == 1
    assert capsys.readouterr().out == "None [] None\n"

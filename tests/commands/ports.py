"""The HTTP port of a configuration that `init` wrote."""

from __future__ import annotations

from pathlib import Path


def other_port(config: str | Path) -> None:
    """Any free one: 8321 may be in use on this machine, also by another test."""
    path = Path(config)
    text = path.read_text()
    assert "port = 8321" in text
    path.write_text(text.replace("port = 8321", "port = 0"))

"""The commands that messages print for pip."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import sys
from pathlib import Path

import pytest

from consumers.base import extras


def packages(extra: str) -> list[str]:
    """What pip is given."""
    return shlex.split(extras.install(extra).partition(" install ")[2])


@pytest.mark.parametrize("extra", ["arrow", "mail", "registry", "remote", "spark", "web"])
def test_packages_of_an_extra_are_named_with_their_versions(extra: str) -> None:
    """Each as pip takes it; the project itself is on no index."""
    found = packages(extra)

    assert found
    assert all(re.fullmatch(r"[\w.-]+(\[\w+(,\w+)*\])?[<>=].*\d.*", each) for each in found)
    assert not [each for each in found if each.startswith("headwater")]


def test_extra_of_a_clone_that_is_not_installed_is_that_of_its_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without metadata nobody knows the packages."""

    def missing(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)

    assert packages("arrow") == [".[arrow]"]


def test_pip_is_that_of_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one on the path may belong to another Python."""
    other = tmp_path / "pip"
    other.touch(mode=0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    assert extras.install("web").startswith(f"{sys.executable} -m pip install ")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert extras.install("web").startswith("pip install ")

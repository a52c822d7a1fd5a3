"""The environment is made again where the old one would mislead, and mended where half made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite import environment, steps


@pytest.fixture
def installed(tmp_path: Path, monkeypatch) -> list[str]:
    """What has been installed, in a project of its own."""
    done: list[str] = []
    monkeypatch.setattr(environment, "_install", done.append)
    monkeypatch.setattr(steps, "DONE", tmp_path / "steps")
    clone(tmp_path / "one", monkeypatch)
    return done


def clone(folder: Path, monkeypatch) -> None:
    """A project in this folder from now on."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text("1")
    monkeypatch.setattr(environment, "ROOT", folder)
    monkeypatch.setattr(steps, "ROOT", folder)


def test_heavy_package_is_installed_again_where_it_is_gone_or_another_is_asked_for(
    installed: list[str],
) -> None:
    """Or tests of a new version would be green with the old one."""
    environment.install("test", "spark")
    environment.install("test", "spark")
    assert installed == [".[test,spark]"]

    environment.install("test", "spark", again=True)
    (environment.ROOT / "pyproject.toml").write_text("2")
    environment.install("test", "spark")
    assert installed == [".[test,spark]"] * 3


def test_clone_that_was_copied_has_an_environment_of_its_own(
    installed: list[str], tmp_path: Path, monkeypatch
) -> None:
    """Its `headwater` would be the code of the other."""
    environment.install("test")
    clone(tmp_path / "two", monkeypatch)
    environment.install("test")

    assert installed == [".[test]"] * 2


@pytest.mark.parametrize(("starts", "clear"), [(True, False), (False, True)])
def test_environment_without_pip_is_mended_and_one_without_python_made_again(
    tmp_path: Path, monkeypatch, starts: bool, clear: bool
) -> None:
    """Ctrl-C while it is made leaves the one, the end of its Python the other."""
    made: list[bool] = []
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to("/bin/false" if starts else tmp_path / "gone")
    monkeypatch.setattr(environment, "PYTHON", python)
    monkeypatch.setattr(environment, "FOLDER", tmp_path)
    monkeypatch.setattr(
        environment.venv, "create", lambda folder, with_pip, clear: made.append(clear)
    )

    with pytest.raises((SystemExit, FileNotFoundError)):
        environment._install(".")  # nothing is there to install it

    assert made == [clear]


def test_python_without_venv_says_what_to_install(monkeypatch) -> None:
    """Debian has it in a package of its own."""

    def create(folder: Path, **options: bool) -> None:
        raise subprocess.CalledProcessError(1, "ensurepip")

    monkeypatch.setattr(environment.venv, "create", create)

    with pytest.raises(SystemExit, match="apt-get install python3-venv") as ended:
        environment._make()
    assert sys.executable in str(ended.value)

"""Files of machine code say what they are: a damaged or mistaken one is not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream.kernel.kept import KeptFiles

KEY, CODE = ("types", "processor"), bytes(range(1, 256)) * 40


@pytest.fixture
def files(tmp_path: Path) -> KeptFiles:
    """Those of a kernel, with one code."""
    made = KeptFiles(str(tmp_path), "kernel", "version 1")
    made.save(KEY, CODE)
    return made


def test_what_was_kept_is_loaded(files: KeptFiles) -> None:
    assert files.load(KEY) == CODE
    assert files.load(("other types", "processor")) is None


def test_code_with_a_hole_is_not_loaded(files: KeptFiles, tmp_path: Path) -> None:
    """A power cut leaves zeros where a page was not written."""
    [path] = tmp_path.glob("*.nbc")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(4096) + content[8192:])

    assert files.load(KEY) is None


def test_code_of_another_version_is_not_loaded(files: KeptFiles, tmp_path: Path) -> None:
    """The new version has written its index, and has ended before its code."""
    new = KeptFiles(str(tmp_path), "kernel", "version 2")
    new._save_index({KEY: "kernel.1.nbc"})

    assert new.load(KEY) is None
    new.save(KEY, CODE[1:])
    assert new.load(KEY) == CODE[1:]


def test_code_for_other_types_is_not_loaded(files: KeptFiles) -> None:
    """Two processes have taken the same name for their first code."""
    other = ("other types", "processor")
    files._save_index({other: "kernel.1.nbc"})

    assert files.load(other) is None

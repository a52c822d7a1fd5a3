"""docker/requirements.txt: every package of the image, with the hashes of its files."""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.docker.dockerfile import steps
from tests.docker.queries import DOCKER, ROOT

TEXT = (DOCKER / "requirements.txt").read_text()
LOCKED = {
    canonicalize_name(name): (Version(version), hashes)
    for name, version, hashes in re.findall(
        r"^([\w.-]+)==(\S+)(?: ;[^\\]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
        TEXT,
        re.MULTILINE,
    )
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_line_is_a_package_with_hashes() -> None:
    """And none names an index or another place, so that it installs from any."""
    named = [line for line in TEXT.splitlines() if not line.startswith((" ", "#"))]

    assert len(named) == len(LOCKED) > 40
    assert "://" not in TEXT
    assert "--index" not in TEXT
    assert all(hashes.count("--hash=") >= 1 for _, hashes in LOCKED.values())


def test_lock_has_what_the_project_asks_for() -> None:
    """The extras of its command, and what builds the project, in versions that are allowed."""
    extras = re.findall(r"--extra (\w+)", TEXT)
    project = PROJECT["project"]
    asked = [
        *project["dependencies"],
        *(each for extra in extras for each in project["optional-dependencies"][extra]),
        *PROJECT["build-system"]["requires"],
    ]

    assert extras == ["registry", "remote", "web"]
    for each in map(Requirement, asked):
        assert LOCKED[canonicalize_name(each.name)][0] in each.specifier, each


def test_image_installs_nothing_without_a_hash() -> None:
    """Each call of pip that fetches asks for hashes, and no build fetches its tools."""
    runs = [step.rest for step in steps(DOCKER / "Dockerfile") if step.name == "RUN"]
    calls = [call for run in runs for call in re.findall(r"pip (?:install|wheel)[^&]*", run)]
    fetching = [call for call in calls if "--no-deps --no-build-isolation ." not in call]

    assert len(calls) == 2
    for call in fetching:
        assert "--require-hashes --only-binary :all: " in call
        assert "--requirement docker/requirements.txt" in call

"""A Dockerfile read, and its steps run without an engine: a directory is the root of the image.

Rule: every absolute path of a step that lies in the image is taken within that directory, and each
`FROM` begins with an empty one; so a step that needs what no step brought fails here too.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Built", "Step", "build", "steps"]

# Directories of the image that its steps make or fill.
OURS = ("/src", "/wheels", "/opt", "/etc/headwater", "/var/lib/headwater")


@dataclass(frozen=True)
class Step:
    """An instruction and what follows it."""

    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """What follows, as words: of a JSON list, or as a shell splits them; flags left out."""
        if self.rest.startswith("["):
            return [str(word) for word in json.loads(self.rest)]
        return [word for word in shlex.split(self.rest) if not word.startswith("--")]

    @property
    def flags(self) -> dict[str, str]:
        """Its `--name=value`."""
        return dict(re.findall(r"--([\w-]+)=(\S+)", self.rest))


@dataclass
class Built:
    """An image as a directory, and how it runs.

    Parameters
    ----------
    root
        Its files.
    environment
        Its variables, paths within `root`.
    """

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    workdir: Path = Path("/")
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)


def steps(path: Path) -> list[Step]:
    """The instructions in order, comments left out and lines that go on put together."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return [Step(name.upper(), rest.strip()) for name, rest in found]


def build(path: Path, context: Path, root: Path, outer: Mapping[str, str]) -> Built:
    """Run every step; the last stage lies in `root` afterwards.

    Parameters
    ----------
    path
        The Dockerfile.
    context
        The directory it is built from.
    outer
        Variables of the machine that every step has, such as the way to the package index.
    """
    stages: dict[str, Path] = {}
    built, name = Built(root), ""
    for step in steps(path):
        if step.name == "FROM":
            if root.exists():
                stages[name] = root.rename(root.with_name(f"{root.name}-{name}"))
            root.mkdir()
            name = step.words[-1] if " AS " in step.rest else ""
            built = Built(root, {"PATH": os.environ["PATH"], **outer})
        elif step.name == "RUN":
            _run(_inside(step.rest, root), built)
        elif step.name == "COPY":
            _copy(step, built, stages.get(step.flags.get("from", ""), context))
        elif step.name == "ENV":
            for variable, value in (word.split("=", 1) for word in step.words):
                value = value.replace("$PATH", built.environment["PATH"])
                built.environment[variable] = _inside(value, root)
        elif step.name == "WORKDIR":
            built.workdir = Path(_inside(step.rest, root))
            built.workdir.mkdir(parents=True, exist_ok=True)
        elif step.name == "USER":
            built.user = step.rest
        elif step.name == "ENTRYPOINT":
            built.entrypoint = step.words
        elif step.name == "CMD":
            built.command = [_inside(word, root) for word in step.words]
        elif step.name == "HEALTHCHECK":
            built.health = Step("CMD", step.rest.partition("CMD ")[2]).words
    return built


def _inside(text: str, root: Path) -> str:
    """The text with every path of the image within the root."""
    return re.sub(rf"(?<![\w.\-/])({'|'.join(OURS)})(?![\w-])", rf"{root}\1", text)


def _run(command: str, built: Built) -> None:
    done = subprocess.run(
        ["/bin/sh", "-ec", command],
        cwd=built.workdir,
        env=built.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"RUN {command}\nended with {done.returncode}: {done.stderr[-3000:]}")


def _copy(step: Step, built: Built, source: Path) -> None:
    *froms, to = step.words
    inside = _inside(to, built.root)
    target = Path(inside) if inside.startswith(str(built.root)) else built.workdir / to
    for each in froms:
        found = source / each.lstrip("/")
        if found.is_dir():
            shutil.copytree(found, target, symlinks=True, dirs_exist_ok=True)
        else:
            into = target / found.name if to.endswith("/") else target
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, into)
    if "chown" in step.flags:
        user, _, group = step.flags["chown"].partition(":")
        for path in (target, *target.rglob("*")):
            os.chown(path, int(user), int(group), follow_symlinks=False)

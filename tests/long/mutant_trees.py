"""A copy of the tree in which one mutation at a time is made, and a server that runs its tests."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stream.kernel.bundled import source_stamp
from tests.long.kernel_calls import kernels_changed_by
from tests.long.mutations import ROOT, Mutation

__all__ = ["Worker"]

HERE = Path(__file__).parent
LEFT_OUT = (".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "build")
OPTIONS = [
    *["-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "--timeout=0"],
    "--hypothesis-seed=0",  # the same examples for each mutation
    "-Wignore::pytest.PytestAssertRewriteWarning",  # plugins that the server has imported
]


class Worker:
    """One copy of the tree with its server.

    Parameters
    ----------
    folder
        Where the copy is made.
    mutations
        The sample.
    tests_from
        The commit whose tests it has; None for those of this tree.
    """

    def __init__(self, folder: Path, mutations: list[Mutation], tests_from: str | None) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.tree = folder.resolve() / "tree"
        self._folder, self._mutations = folder.resolve(), mutations
        # With the times of the files, so that bytecode and machine code are valid in the copy.
        shutil.copytree(ROOT, self.tree, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        if tests_from is not None:
            self._take_tests(tests_from)
        hooks = self._folder / "hooks"
        hooks.mkdir()
        shutil.copy(HERE / "reach_hook.py", hooks / "sitecustomize.py")
        self._kernels = {n: kernels_changed_by(each) for n, each in enumerate(mutations)}
        self._stamps = {name: source_stamp(self.tree / name) for name in ("stream", "consumers")}
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment.setdefault("HEADWATER_SHARED", str(ROOT.parent / "shared"))
        environment.pop("PYTHONPATH", None)
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "fork_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self._folder,
        )

    def _take_tests(self, commit: str) -> None:
        command = ["git", "archive", commit, "tests", "pyproject.toml"]
        packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        shutil.rmtree(self.tree / "tests")
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(self.tree, filter="data")

    def close(self) -> None:
        """End the server."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    @contextmanager
    def mutated(self, number: int) -> Iterator[None]:
        """The tree with a mutation. Its time differs, because bytecode is compared by time."""
        mutation = self._mutations[number]
        path = self.tree / mutation.path
        source, before = path.read_bytes(), path.stat()
        path.write_bytes(mutation.applied(source))
        os.utime(path, (before.st_atime, before.st_mtime + 1000 + number))
        try:
            yield
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def look(self, file: str, options: list[str]) -> dict[str, Any]:
        """Run a file of tests without a mutation, and see what they reach."""
        statements: dict[str, dict[str, list[int]]] = {}
        kernels: dict[str, list[int]] = {}
        for number, mutation in enumerate(self._mutations):
            if mutation.statement is not None and not mutation.kernel:
                place = "{}:{}".format(*mutation.statement)
                statements.setdefault(mutation.path, {}).setdefault(place, []).append(number)
            for name in self._kernels[number]:
                kernels.setdefault(name, []).append(number)
        marks = self._folder / "marks"
        marks.write_bytes(bytes(len(self._mutations)))
        task = {"marks": str(marks), "statements": statements, "kernels": kernels, "changed": []}
        stage = {"files": [file], "tests": None, "limits": {}}
        return self._ask(task, [stage], [*OPTIONS, *options], probe=True)

    def run(self, number: int, stages: list[dict[str, Any]], options: list[str]) -> dict[str, Any]:
        """Run tests with a mutation, until one fails."""
        task = {"marks": "", "statements": {}, "kernels": {}}
        task["changed"] = sorted(self._kernels[number])
        return self._ask(task, stages, [*OPTIONS, "-x", *options], probe=False)

    def _ask(
        self,
        task: dict[str, Any],
        stages: list[dict[str, Any]],
        options: list[str],
        probe: bool,
    ) -> dict[str, Any]:
        for (
            stage
        ) in stages:  # the options of the tests' plugin are known where its conftest is read
            if not any(file.startswith("tests/") for file in stage["files"]):
                stage["files"] = [*stage["files"], "tests/conftest.py"]
        scratch, code = self._folder / "tmp", self._folder / "machine_code"
        for folder in (scratch, code):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        task |= {"tree": str(self.tree), "stamps": self._stamps, "machine_code": str(code)}
        (self._folder / "task.json").write_text(json.dumps(task))
        hooks = self._folder / "hooks"
        environment = {"PYTHONPATH": f"{hooks}{os.pathsep}{self.tree}", "TMPDIR": str(scratch)}
        environment["REACH"] = str(self._folder / "task.json")
        limits = {name: limit for stage in stages for name, limit in stage["limits"].items()}
        job = {"tree": str(self.tree), "hook": str(hooks / "sitecustomize.py"), "probe": probe}
        job |= {"log": str(self._folder / "log"), "environment": environment, "limits": limits}
        job |= {"options": options, "stages": stages}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        line = self._server.stdout.readline()
        assert line, "the server of tests has ended"
        return json.loads(line)

"""MOA as a peer: it reads an ARFF file into memory and reports its own CPU time.

Java 17 or newer and Maven are needed; the jars are copied into a cache, once.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["Moa", "prequential", "write_arff"]

POM = Path(__file__).with_name("pom.xml")


@dataclass(frozen=True)
class Moa:
    """What MOA printed of a run."""

    seconds: float
    accuracy: float


def write_arff(path: Path, x: NDArray[np.float64], y: NDArray[np.int64]) -> None:
    """Numeric attributes, NaN as missing, and the class last."""
    with path.open("w") as out:
        out.write("@relation stream\n")
        out.writelines(f"@attribute x{j} numeric\n" for j in range(x.shape[1]))
        out.write(f"@attribute class {{{','.join(map(str, range(int(y.max()) + 1)))}}}\n@data\n")
        for row, label in zip(x.tolist(), y.tolist(), strict=True):
            out.write(",".join("?" if v != v else repr(v) for v in row) + f",{label}\n")


def prequential(learner: str, arff: Path, n: int) -> Moa:
    """Test-then-train on n records, in memory before its clock starts.

    The clock is MOA's own: the CPU time of the one thread that evaluates, so neither reading the
    file nor compiling nor collecting garbage counts. The stream comes shuffled, for that is the
    only one MOA keeps in memory.
    """
    task = (
        f"EvaluatePrequential -l ({learner}) -e BasicClassificationPerformanceEvaluator "
        f"-s (CacheShuffledStream -m {n} -s (ArffFileStream -f {arff})) -i {n} -f {n}"
    )
    command = ["java", "-Xmx4g", "-XX:+UseSerialGC", "-cp", f"{_jars()}/*", "moa.DoTask", task]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - MOA
    header, _, values = done.stdout.strip().rpartition("\n")
    row = next(csv.DictReader([re.split("[\r\n]", header)[-1], values]))
    return Moa(
        float(row["evaluation time (cpu seconds)"]),
        float(row["classifications correct (percent)"]),
    )


def _jars() -> Path:
    """The directory with MOA's jars, filled by Maven the first time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater-tests"
    jars = cache / f"moa-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if jars.is_dir():
        return jars
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        command = ["mvn", "--quiet", "--batch-mode", f"--file={POM}"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={scratch}/jars"]
        subprocess.run(command, check=True)  # noqa: S603 - Maven
        Path(scratch, "jars").rename(jars)
    return jars

"""What an import loads, compiles and takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMPORT_SECONDS = 1.5

PROBE = """
import sys, time, json
from numba.core import event
start = time.perf_counter()
with event.install_recorder("numba:compile") as compiled:
    import stream
print(json.dumps({"compiled": len(compiled.buffer), "modules": sorted(sys.modules)}))
"""
CLOCK = "import time; t = time.process_time(); import stream; print(time.process_time() - t)"


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def test_importing_the_core_compiles_nothing_and_loads_little() -> None:
    """river's metrics and drift, and libraries of frames, are loaded by those who use them."""
    found = json.loads(python(PROBE))
    heavy = {"river.metrics", "river.drift", "river.datasets", "sklearn", "matplotlib"}
    heavy |= {"narwhals", "pandas", "polars", "pyarrow"}

    assert found["compiled"] == 0
    assert not heavy & set(found["modules"])
    assert not [m for m in found["modules"] if m.split(".")[0] == "consumers"]


def test_importing_the_service_loads_no_statistics() -> None:
    """scipy.stats takes longer than the rest of a start; only some of river's modules need it."""
    found = json.loads(python(PROBE.replace("import stream", "import consumers.service.runner")))

    assert not {"scipy.stats", "river.metrics", "river.multiclass"} & set(found["modules"])


def test_feeds_of_the_demo_load_no_statistics() -> None:
    """`river.datasets` takes longer to import than the rest of a start."""
    feed = "from consumers.demo.data import bundled; next(bundled('phishing').records())"
    found = json.loads(python(PROBE.replace("import stream", feed)))

    assert not {"river.datasets", "scipy.stats", "sklearn", "pandas"} & set(found["modules"])


def test_importing_the_core_is_quick(record_property) -> None:
    """The best of three is far below what a user would notice."""
    seconds = min(float(python(CLOCK)) for _ in range(3))
    record_property("import_stream_seconds", seconds)

    assert seconds < IMPORT_SECONDS, f"import stream takes {seconds:.2f} s"

"""What an import loads and compiles."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_IMPORTED = 800  # modules that `import stream` loads, with numba and numpy

PROBE = """
import sys, json
from numba.core import event
with event.install_recorder("numba:compile") as compiled:
    import stream
print(json.dumps({"compiled": len(compiled.buffer), "modules": sorted(sys.modules)}))
"""


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def test_importing_the_core_compiles_nothing_and_loads_little() -> None:
    """river's metrics and drift, and libraries of frames, are loaded by those who use them.

    The number of modules bounds the time of an import without a clock.
    """
    found = json.loads(python(PROBE))
    heavy = {"river.metrics", "river.drift", "river.datasets", "sklearn", "matplotlib"}
    heavy |= {"narwhals", "pandas", "polars", "pyarrow"}

    assert found["compiled"] == 0
    assert not heavy & set(found["modules"])
    assert not [m for m in found["modules"] if m.split(".")[0] == "consumers"]
    assert len(found["modules"]) < MOST_IMPORTED


def test_importing_the_service_loads_no_statistics() -> None:
    """scipy.stats takes longer than the rest of a start; only some of river's modules need it."""
    found = json.loads(python(PROBE.replace("import stream", "import consumers.service.runner")))

    assert not {"scipy.stats", "river.metrics", "river.multiclass"} & set(found["modules"])


def test_feeds_of_the_demo_load_no_statistics() -> None:
    """`river.datasets` takes longer to import than the rest of a start."""
    feed = "from consumers.demo.data import bundled; next(bundled('phishing').records())"
    found = json.loads(python(PROBE.replace("import stream", feed)))

    assert not {"river.datasets", "scipy.stats", "sklearn", "pandas"} & set(found["modules"])

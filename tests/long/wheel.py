"""A wheel with machine code, as its users meet it: `python -m tests.long.wheel`.

`.ci/wheel` builds it; it is installed into an environment of its own. There the first demo
compiles nothing. Then a stream is learned with the machine code of each level, and with code that
was compiled for this processor: the fingerprints are equal. It takes about ten minutes, or two if
the directory of a wheel is given.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stream.kernel.tiers import VARIABLE
from tests.acceptance.service import processor_seconds

ROOT = Path(__file__).resolve().parents[2]
LEARN = """
import sys
from numba.core.event import install_recorder
from stream.kernel import bundled
level = sys.argv[1]
bundled._levels = lambda: () if level == "none" else (level,)  # kernels ask at their first call
from river import datasets
from consumers.config.auto import auto_of
from stream.mixture.composed import made
with install_recorder("numba:compile") as compiled:
    learner = made(auto_of())
    for x, y in datasets.Phishing():
        learner.predict_proba_one(x)
        learner.learn_one(x, y)
print(len(compiled.buffer), learner.to_state().fingerprint())
"""


def say(text: str) -> None:
    """A line of the report."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def clean() -> dict[str, str]:
    """The environment of a user: without this project, and with the default way of kernels."""
    return {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", VARIABLE)
    }


def first_prediction(command: Path, place: Path) -> tuple[float, str]:
    """CPU seconds of the demo until it shows its first predictions, and all that it prints."""
    with subprocess.Popen(
        [command, "demo", "--fast"], cwd=place, env=clean(), text=True, stdout=subprocess.PIPE
    ) as demo:
        assert demo.stdout is not None
        said, used = "", None
        for line in demo.stdout:
            said += line
            if used is None and "accuracy" in line:
                used = processor_seconds(demo.pid)
    assert demo.returncode == 0, said
    assert used is not None, said
    return used, said


def ran(command: list[str], place: Path) -> str:
    """What a command prints."""
    return subprocess.run(
        command, cwd=place, env=clean(), check=True, text=True, stdout=subprocess.PIPE
    ).stdout


def main() -> None:
    """Build, install, run the demo twice, and compare fingerprints."""
    with tempfile.TemporaryDirectory(prefix="headwater-wheel-") as name:
        place = Path(name)
        built = Path(sys.argv[1]) if len(sys.argv) > 1 else place
        if built == place:
            subprocess.run([sys.executable, ROOT / ".ci/wheel", "--output", place], check=True)
        (wheel,) = built.glob("headwater-*.whl")
        subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
        python = place / "venv" / "bin" / "python"
        began = time.monotonic()
        ran([str(python), "-m", "pip", "install", "-q", str(wheel)], place)
        took = time.monotonic() - began
        size = wheel.stat().st_size / 1e6
        say(f"{wheel.name}: {size:.1f} MB; installed with all it needs in {took:.0f} s")
        subprocess.run([python, "-m", "compileall", "-q", place / "venv"], check=False)
        for which in ("first", "second"):
            used, said = first_prediction(python.with_name("headwater"), place)
            assert "compiling" not in said, said
            assert not list((place / "venv").rglob("__pycache__/*.nbi"))
            say(
                f"{which} demo: first predictions after {used:.1f} s of a processor, no compilation"
            )
        prints = {}
        for level in ("x86-64-v3", "generic", "none"):
            compiled, prints[level] = ran([str(python), "-c", LEARN, level], place).split()
            assert (compiled == "0") == (level != "none"), (level, compiled)
            say(f"{level}: {compiled} compiled, fingerprint {prints[level]}")
        assert len(set(prints.values())) == 1


if __name__ == "__main__":
    main()

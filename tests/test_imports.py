"""What an import and a command load and compile.

Rule: the number of modules bounds the time of a start without a clock. A bound is what is loaded
now, rounded up; whoever needs more looks for what to load later.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import headwater
import stream
from consumers.config.learner import model_types
from consumers.service import trial
from stream.learner.registry import learners

ROOT = Path(__file__).parents[1]
MOST_IMPORTED = 800  # modules that all learners load, with numba and numpy

PROBE = """
import sys, json
from stream import *
print(json.dumps(sorted(sys.modules)))
"""
SERVICE = "import consumers.service.runner, consumers.transports.kafka.log, consumers.commands.run"
COMMAND = """
import sys
from headwater.cli import main
code = main()
print("modules", *sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""
HEAVY = {"numba", "llvmlite", "scipy", "river", "starlette", "uvicorn", "pandas", "sklearn"}
# Each command with the most modules that it loads. Python itself has about 60, the options of a
# command 150, numpy 90, the classes of the configuration 130 with pydantic.
LIGHT = {
    "learn --spam mail --url URL": 365,
    "classify --url URL -I mail": 265,
    "tail orders --from-beginning --drain --transport sqlite:log.db": 325,
    "tail orders --from-beginning --drain --config orders.toml": 500,
    "produce orders more.jsonl --transport sqlite:log.db": 425,
    "produce orders more.jsonl --config orders.toml": 545,
    "produce orders more.csv --config orders.toml": 545,
}
CHECK = 650  # modules of a check, with those of all learners
ANSWER = (
    b'{"id":"7","prediction":"spam","probabilities":[["spam",0.9],["ham",0.1]],"model":{"name":'
    b'"mail","type":"spam","learned":40},"position":{"topic":"mail","partition":0,"offset":7},'
    b'"ts":0,"explanation":{"against":"ham","log_odds":2.2,"top":[["prize",2.0]]}}'
)
WRITTEN = b'{"records":[{"topic":"mail","partition":0,"offset":0}]}'


class Service(BaseHTTPRequestHandler):
    """Predicts that every mail is spam, and knows none."""

    def do_GET(self) -> None:
        self._answer(404, b'{"title":"none","status":404,"detail":"not known"}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer(*((200, ANSWER) if "predict" in self.path else (202, WRITTEN)))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """That of a service."""
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a configuration, its log and files."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "mail").write_bytes(b"Subject: prize\nMessage-ID: <7@x>\n\nwon\n")
    (folder / "more.jsonl").write_text('{"id": "1", "amount": 12.5}\n')
    (folder / "more.csv").write_text("id,amount\n2,12.5\n")
    (folder / "orders.toml").write_text(
        'name = "orders"\n[input]\ntransport = "sqlite:log.db"\nobservations = "orders"\n'
        'labels = "paid"\n[features]\namount = "numeric"\n'
        '[decision]\nmax_false_positive_rate = { label = "no", rate = 0.01 }\n'
        '[drift]\ndetectors = [{ on = "feature:amount", type = "ADWIN" }]\n'
    )
    loaded_by("check orders.toml --create", folder)
    return folder


def loaded_by(words: str, folder: Path) -> set[str]:
    """The modules that a command has loaded at its end."""
    command = [sys.executable, "-P", "-c", COMMAND, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.rpartition("modules ")[2].split())


@pytest.mark.parametrize(("words", "most"), LIGHT.items(), ids=lambda value: str(value))
def test_command_loads_only_what_it_uses(words: str, most: int, place: Path, url: str) -> None:
    """A mail filter starts once a mail, and a script calls the others for a record."""
    loaded = loaded_by(words.replace("URL", url), place)

    assert not loaded & HEAVY
    assert len(loaded) < most, len(loaded)


def test_check_of_a_configuration_loads_no_service(place: Path) -> None:
    """It builds the learner, and looks at the log: no compiler, no server, no shard, no mail."""
    loaded = loaded_by("check orders.toml", place)

    assert not loaded & {
        *HEAVY - {"river"},
        "asyncio",
        "rich",
        "stream.evaluate",
        "stream.join.join",
    }
    assert not loaded & {
        "consumers.shard.shard",
        "consumers.service.commit",
        "consumers.mail.document",
    }
    assert len(loaded) < CHECK, len(loaded)


def test_start_that_is_asked_to_end_imports_no_more(place: Path) -> None:
    """Ctrl-C is noted while the configuration is imported; the rest takes as long again."""
    code = (
        "import sys, json, threading; from pathlib import Path; from consumers.commands import run;"
        "stop = threading.Event(); stop.set();"
        f"run._serve(Path({str(place / 'orders.toml')!r}), False, stop, (None, None), False, None);"
        "print(json.dumps(sorted(sys.modules)))"
    )
    loaded = set(json.loads(python(code)))

    assert "consumers.config.load" in loaded
    assert not loaded & {*HEAVY, "consumers.shard.models", "consumers.cluster.fleet"}


IMPORTED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, *_):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):  # the handler runs between two instructions
                pass

sys.meta_path.insert(0, Finder())
sys.argv = ["headwater", "sample"]
from headwater.start import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("name", "code"), [("typer", -signal.SIGINT), ("consumers.commands.sample", 130)]
)
def test_ctrl_c_within_an_import_prints_no_traceback(name: str, code: int) -> None:
    """The shell reports 130 for both."""
    command = [sys.executable, "-c", IMPORTED.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.parametrize("package", ["stream", "headwater"])
def test_importing_a_package_loads_nothing(package: str) -> None:
    """Its names are loaded when they are used."""
    code = f"import sys, json; import {package}; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(python(code)))

    assert not loaded & {*HEAVY, "numpy", "pydantic", "msgspec"}


@pytest.mark.parametrize("package", [stream, headwater])
def test_every_public_name_is_found(package: object) -> None:
    """Also by `from … import *`, and where the names are listed."""
    names = package.__all__

    assert all(getattr(package, name) is not None for name in names)
    assert set(names) <= set(dir(package))
    with pytest.raises(AttributeError, match="has no attribute 'Typo'"):
        package.Typo  # noqa: B018


def test_types_of_a_configuration_are_the_learners() -> None:
    """Their names are known without loading them."""
    assert set(model_types()) - {"auto", "spam"} == set(learners())


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def test_importing_the_core_loads_no_compiler_and_little() -> None:
    """numba, metrics and drift of river, and libraries of frames wait for who uses them."""
    found = json.loads(python(PROBE))
    heavy = {"river.metrics", "river.drift", "river.datasets", "sklearn", "matplotlib"}
    heavy |= {"numba", "llvmlite", "narwhals", "pandas", "polars", "pyarrow"}

    assert not heavy & set(found)
    assert not [m for m in found if m.split(".")[0] == "consumers"]
    assert len(found) < MOST_IMPORTED


def test_making_every_learner_loads_no_compiler() -> None:
    """A command that reads a configuration makes a learner, and may use none."""
    made = "from stream.checks.__main__ import shipped; [l.clone() for l in shipped()]"
    found = json.loads(python(PROBE.replace("from stream import *", made)))

    assert not {"numba", "llvmlite"} & set(found)


def test_importing_the_service_and_kafka_loads_no_compiler_and_no_statistics() -> None:
    """scipy.stats takes longer than the rest of a start; only some of river's modules need it."""
    found = json.loads(python(PROBE.replace("from stream import *", SERVICE)))

    assert not {"numba", "llvmlite", "scipy.stats", "river.metrics", "river.multiclass"} & set(
        found
    )


def test_feeds_of_the_demo_load_no_statistics() -> None:
    """`river.datasets` takes longer to import than the rest of a start."""
    feed = "from consumers.demo.data import bundled; next(bundled('phishing').records())"
    found = json.loads(python(PROBE.replace("from stream import *", feed)))

    assert not {"river.datasets", "scipy.stats", "sklearn", "pandas"} & set(found)


@pytest.fixture
def shadowed(tmp_path: Path) -> Path:
    """A folder with a file that has the name of our package, as one of a user may."""
    (tmp_path / "stream.py").write_text("raise SystemExit('the file of the folder was run')\n")
    return tmp_path


def test_command_runs_no_file_of_its_folder(shadowed: Path) -> None:
    """An installed command is a script, so its folder is not where Python looks."""
    command = [Path(sys.executable).with_name("headwater"), "sample", "payments"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=shadowed, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert (shadowed / "payments.csv").is_file()


def test_process_that_a_service_starts_runs_no_file_of_its_folder(shadowed: Path) -> None:
    """A service may start in any folder."""
    command = [*trial.COMMAND, "999"]  # no open file, which it reports
    done = subprocess.run(command, capture_output=True, text=True, cwd=shadowed, check=False)

    assert "Bad file descriptor" in done.stdout, done.stderr


def test_other_package_of_the_name_is_named(tmp_path: Path) -> None:
    """A program beside it would get an error that names no file."""
    (tmp_path / "stream.py").touch()
    command = [sys.executable, "-c", "from headwater import MixedNB"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert f"got {tmp_path / 'stream.py'}; rename that file" in done.stderr

"""`headwater demo`: what a stranger sees after one command, on a terminal and off it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from urllib.request import urlopen

import pytest
from numba.core.caching import UserProvidedCacheLocator
from river.datasets import Bananas

import consumers
import stream
from consumers.base.records import Partition
from consumers.transports import open_log
from tests.acceptance.conftest import PAGES, Shell
from tests.acceptance.service import HEADWATER
from tests.calling import call
from tests.waiting import PATIENCE, until

ADDRESSES = re.compile(r"live page: (http://\S+/)\nmetrics: \1metrics")

FEW = 800  # records, of which a model learns more than which class is the larger
SECONDS = 20  # that a demo takes on a terminal
DRAWN = 20  # times, which a terminal sees within a few of them


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """One directory, in which several demos are run one after the other."""
    return Shell(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def said(place: Shell) -> list[str]:
    """What the first demo there says, without a terminal; the installed command."""
    return place.start("demo").stdout.splitlines()


def gaps(directory: Path) -> set[int]:
    """How many milliseconds apart the observations of a demo were sent."""
    partition = Partition("phishing", 0)
    with closing(open_log(f"sqlite:{directory / 'headwater-demo' / 'phishing.db'}")) as log:
        chunks = list(log.read({partition: 0}, log.end_offsets([partition])))
    sent = [at for chunk in chunks for at in chunk.timestamps]
    return {later - at for at, later in pairwise(sent)}


def accuracies(lines: list[str]) -> dict[str, list[float]]:
    """The rows of the summary: model and baselines to accuracy in all, last 1,000, fading."""
    at = next(i for i, line in enumerate(lines) if line.startswith("accuracy "))
    rows = [re.split(r"\s{2,}", line.replace(" %", "")) for line in lines[at + 1 : at + 4]]
    return {name: [float(value) for value in values] for name, *values in rows}


def next_commands(lines: list[str]) -> list[list[str]]:
    """The arguments of the commands that are proposed at the end."""
    whole = "\n".join(lines).replace(" \\\n", " ").split("\n")
    return [shlex.split(line)[1:] for line in whole if re.match(r"  \S*headwater ", line)]


def test_addresses_of_page_and_metrics_are_printed_first(said: list[str]) -> None:
    """Before anything happens, so that a browser or a scraper can be pointed at it."""
    assert ADDRESSES.fullmatch("\n".join(said[:2]))


def test_off_a_terminal_progress_is_plain_lines(said: list[str]) -> None:
    """No control codes; accuracy stands beside both baselines while it goes on."""
    progress = [line for line in said if f"of {PAGES:,} observations" in line]

    assert len(progress) >= 5
    assert all("accuracy" in s and "majority" in s and "no-change" in s for s in progress[1:])
    assert not [line for line in said if "\x1b" in line]


def test_off_a_terminal_it_is_not_paced(place: Shell, said: list[str]) -> None:
    """The records are sent as fast as their timestamps may follow each other."""
    assert gaps(place.directory) == {1}
    assert f"{PAGES:,} observations predicted" in "\n".join(said)


def test_it_visibly_learns(said: list[str]) -> None:
    """At the end it is clearly better than both baselines, and than it was itself."""
    last = accuracies(said)
    model = last.pop("auto")
    shown = [float(m[1]) for line in said if (m := re.search(r" accuracy +([\d.]+) %", line))]

    assert set(last) == {"majority", "no-change"}
    assert all(model[i] > row[i] + 20 for row in last.values() for i in range(3))
    assert shown[-1] > shown[0] + 3


def test_summary_has_confusion_and_a_wrong_then_right_record(said: list[str]) -> None:
    """With the counts of every scored prediction, and with probabilities."""
    at = next(i for i, line in enumerate(said) if line.startswith("confusion"))
    counts = [line.split()[1:] for line in said[at + 2 : at + 4]]
    unscored = int(next(m[1] for s in said if (m := re.match(r"not scored: (\d+)", s))))

    assert sum(int(n) for row in counts for n in row) + unscored == PAGES
    for word in ("wrong", "right"):
        assert [s for s in said if re.search(rf"#[\d,]+ +{word}: predicted \w+ \(\w+ >?\d+ %, ", s)]


def test_every_file_it_names_is_there(place: Shell, said: list[str]) -> None:
    """Configuration, log and model."""
    at = said.index("files in headwater-demo")
    names = [line.split()[0] for line in said[at + 1 : said.index("next") - 1]]

    assert len(names) == 3
    assert all((place.directory / "headwater-demo" / name).exists() for name in names)


def test_next_commands_fit_a_terminal(said: list[str]) -> None:
    """Of 80 columns, so that a line that is copied has no break in the middle."""
    assert max(map(len, said[said.index("next") :])) <= 80


def test_next_commands_work_as_they_are_printed(place: Shell, said: list[str]) -> None:
    """Every prediction, the same model from the journal, the service on the demo's files."""
    tail, replay, run = next_commands(said)
    predictions = [json.loads(line) for line in place.lines(*tail)]
    replayed = place.lines(*replay)
    # Whatever else listens on this machine's 8321 is not what is tested.
    place.edit(run[1], ("port = 8321", "port = 0"))
    served = place(*run, "--drain")

    assert [p["position"]["offset"] for p in predictions] == list(range(PAGES))
    assert any(f"{2 * PAGES:,} records ({PAGES:,} observations" in line for line in replayed)
    assert (
        f"0 records replayed, {PAGES:,} observations known, {PAGES:,} labels learned"
        in served.stderr
    )


@pytest.mark.usefixtures("said")
def test_second_demo_gets_a_fresh_number_and_other_feeds_work(place: Shell) -> None:
    """Nothing of an earlier demo is touched; --fast and --feed."""
    first = (place.directory / "headwater-demo" / "phishing.db").read_bytes()
    bananas = place.lines("demo", "--feed", "bananas", "--fast")
    segments = place.lines("demo", "--feed", "segments", "--fast")

    assert "files in headwater-demo-2" in bananas
    assert "files in headwater-demo-3" in segments
    assert (place.directory / "headwater-demo" / "phishing.db").read_bytes() == first
    for lines in (bananas, segments):
        last = accuracies(lines)
        (model,) = last.keys() - {"majority", "no-change"}
        assert last[model][0] > max(last["majority"][0], last["no-change"][0]) + 5


def test_own_file_is_a_feed(shell: Shell) -> None:
    """JSONL with the label inside, named by --label."""
    records = [{"left": x["1"], "up": x["2"], "kind": f"k{y}"} for x, y in Bananas()]
    shell.write("mine.jsonl", "".join(json.dumps(r) + "\n" for r in records[:FEW]))

    lines = shell.lines("demo", "--from", "mine.jsonl", "--label", "kind")

    last = accuracies(lines)
    assert any(line.startswith(f"{FEW} observations predicted, {FEW} labels") for line in lines)
    assert last["auto"][0] > last["majority"][0]
    assert len(shell.lines(*next_commands(lines)[0])) == FEW


def test_a_kernel_that_is_not_in_the_cache_is_announced_and_kept(
    shell: Shell, tmp_path: Path
) -> None:
    """As on first use. What all kernels take then is measured when the cache of the tests is
    filled, see `tests.kernels`."""
    copy_cache(tmp_path, without="_kernels.rank.")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [HEADWATER, "demo"]

    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )

    assert done.returncode == 0
    said = [line for line in done.stdout.splitlines()[:4] if line.startswith("compiling kernels")]
    assert said == ["compiling kernels (once), which takes up to a minute"]
    assert list(tmp_path.rglob("_kernels.rank.*.nbi"))


def copy_cache(directory: Path, without: str) -> None:
    """The kernel cache of this machine in another directory, as numba lays it out there."""
    for package in (stream, consumers):
        for path in Path(package.__path__[0]).rglob("*.nb[ci]"):
            if not path.name.startswith(without):
                source = path.parent.parent / "source.py"
                place = UserProvidedCacheLocator.get_suitable_cache_subpath(str(source))
                (directory / place).mkdir(exist_ok=True)
                shutil.copy2(path, directory / place)


class Terminal:
    """A pseudo-terminal of 100 x 32 with a demo in it."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._own, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 32, 100, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1"}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [HEADWATER, "demo", *arguments],
            cwd=directory,
            env=environment,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        self._bytes = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while part := os.read(self._own, 65536):
                self._bytes += part
        except OSError:  # how Linux says that nobody has the other end any more
            pass

    @property
    def shown(self) -> str:
        """All that was written to it so far."""
        return self._bytes.decode(errors="replace")

    def wait_for(self, pattern: str, times: int = 1) -> re.Match[str]:
        """Wait until it has shown what the pattern finds, so many times; the last one."""

        def look() -> re.Match[str] | None:
            running = self.process.poll() is None  # before the look: what it showed last counts
            found = list(re.finditer(pattern, self.shown))
            assert running or len(found) >= times, f"no {pattern} in:\n{self.shown[-3000:]}"
            return found[-1] if len(found) >= times else None

        return until(look, pattern)

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)
        os.close(self._own)


@contextmanager
def terminal(directory: Path, *arguments: str) -> Iterator[Terminal]:
    """A terminal for the time of a `with`."""
    opened = Terminal(directory, *arguments)
    try:
        yield opened
    finally:
        opened.close()


def test_on_a_terminal_it_is_paced_and_drawn_until_ctrl_c(tmp_path: Path) -> None:
    """The rich live view: rates, accuracy and baselines, confusion, pending, wrong then right.

    Ctrl-C ends it early: the commit in hand is finished, and what was learned is told; exit 0.
    """
    with terminal(tmp_path) as screen:
        address = screen.wait_for(r"metrics: (http://\S+/metrics)")[1]
        screen.wait_for(r"[1-9]\d* labels pending")
        with urlopen(address, timeout=PATIENCE) as answer:
            metrics = answer.read().decode()
        screen.wait_for(r"model \d+\.\d %")
        screen.wait_for("[\u2801-\u28ff]", 50)  # the curve, in braille
        screen.wait_for("wrong, then right", DRAWN)
        screen.process.send_signal(signal.SIGINT)
        code = screen.wait()
        shown = screen.shown
    ended = re.search(rf"stopped after ([\d,]+) of {PAGES:,} observations", shown)

    assert code == 0
    assert "Traceback" not in shown
    assert ended, "it was drawn several times a second"
    assert gaps(tmp_path) == {1000 * SECONDS // PAGES}, "it is paced"
    assert "headwater_accuracy_ratio" in metrics
    for word in (
        "records/s",
        "majority",
        "no-change",
        "confusion",
        "predicted true",
        "predicted false",
    ):
        assert word in shown
    assert "headwater tail phishing-predictions" in shown
    assert "files in headwater-demo" in shown
    (config,) = (tmp_path / "headwater-demo").glob("*.toml")
    config.write_text(config.read_text().replace("port = 8321", "port = 0"))
    call("run", config, "--drain", code=0)  # what is there can be continued


def test_open_shows_the_page_in_the_browser_until_ctrl_c(tmp_path: Path) -> None:
    """The browser is given the address; when all is learned the page is still there."""
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho "$1" > "$0.asked"\n')
    browser.chmod(0o755)
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    command = [HEADWATER, "demo", "--open", "--fast"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        address = str(running.stdout.readline()).removeprefix("live page: ").strip()
        said = ""
        while "the live page stays until Ctrl-C" not in said and (
            line := running.stdout.readline()
        ):
            said += line  # an interrupt before would end the wait for the browser

        def learned() -> int:
            with urlopen(f"{address}status", timeout=PATIENCE) as answer:
                return int((json.load(answer)["shard"] or {"learned": 0})["learned"])

        until(lambda: learned() == PAGES, "the last label")
        running.send_signal(signal.SIGINT)
        said += running.communicate(timeout=PATIENCE)[0]

    assert (tmp_path / "browser.asked").read_text().strip() == address
    assert "the live page stays until Ctrl-C" in said
    assert f"{PAGES:,} observations predicted" in said
    assert running.returncode == 0

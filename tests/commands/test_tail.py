"""`headwater tail`: what is printed, and the ways it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from consumers.base.records import Outgoing, Partition
from consumers.cli import main
from consumers.transports import open_log
from consumers.transports.fetching import FetchingLog
from consumers.transports.protocol import Log
from tests.waiting import PATIENCE, until

Said = pytest.CaptureFixture[str]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """An embedded log."""
    return f"sqlite:{tmp_path / 'log.db'}"


@pytest.fixture
def log(url: str) -> Iterator[Log]:
    """The log, with a topic `t` of two partitions and three records."""
    opened = open_log(url)
    opened.create_topic("t", 2)
    opened.append(
        [
            Outgoing("t", b"a", '{"x": "é"}'.encode(), 1000, (("h", b"\xff"),), 0),
            Outgoing("t", None, b"\xffplain", 1001, (), 1),
            Outgoing("t", b"c", None, 1002, (), 1),
        ]
    )
    yield opened
    opened.close()


def lines(capsys: Said) -> list[str]:
    """What was printed to stdout."""
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("log")
def test_values_are_printed_one_a_line(url: str, capsys: Said) -> None:
    """UTF-8 as it is, other bytes escaped, nothing as null."""
    code = main(["tail", "t", "--transport", url, "--from-beginning", "--drain"])

    assert code == 0
    assert sorted(lines(capsys)) == ["\\xffplain", "null", '{"x": "é"}']


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("ending", [["--drain"], ["-n", "3"]])
def test_envelope_has_everything_of_a_record(url: str, capsys: Said, ending: list[str]) -> None:
    """JSON values are JSON, others text; headers keep their order."""
    code = main(["tail", "t", "--transport", url, "--from-beginning", "--envelope", *ending])

    shown = sorted((json.loads(line) for line in lines(capsys)), key=lambda r: r["timestamp"])
    assert code == 0
    assert shown[0] == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": 1000,
        "key": "a",
        "headers": [["h", "\\xff", "/w=="]],
        "value": {"x": "é"},
    }
    assert [r["value"] for r in shown[1:]] == ["\\xffplain", None]
    assert [(r["partition"], r["offset"], r["key"]) for r in shown[1:]] == [
        (1, 0, None),
        (1, 1, "c"),
    ]


@pytest.mark.usefixtures("log")
def test_drain_without_beginning_prints_nothing(url: str, capsys: Said) -> None:
    """The present end is where it starts and stops."""
    assert main(["tail", "t", "--transport", url, "--drain"]) == 0
    assert main(["tail", "t", "--transport", url, "--drain", "--envelope"]) == 0
    assert lines(capsys) == []


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("drain", [[], ["--drain"]])
def test_max_ends_it(url: str, capsys: Said, drain: list[str]) -> None:
    """So many records, then exit 0."""
    assert main(["tail", "t", "--transport", url, "--from-beginning", "-n", "2", *drain]) == 0
    assert len(lines(capsys)) == 2


def test_numbers_beyond_64_bits_are_shown_as_they_are(url: str, log: Log, capsys: Said) -> None:
    """What is printed is what was sent."""
    log.create_topic("big", 1)
    log.append([Outgoing("big", None, b"[123456789012345678901234567890, 1.50]")])

    main(["tail", "big", "--transport", url, "--from-beginning", "--drain", "--envelope"])
    assert '"value":[123456789012345678901234567890,1.5]' in lines(capsys)[0]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "waiting for new records in t, after 3 that --from-beginning prints; Ctrl-C ends\n"),
        (["--from-beginning"], "waiting for new records in t; Ctrl-C ends\n"),
    ],
)
@pytest.mark.parametrize("terminal", [True, False])
def test_terminal_is_told_once_what_a_wait_is_for(
    url: str,
    log: Log,
    capsys: Said,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    line: str,
    terminal: bool,
) -> None:
    """Only on a terminal: the file of a service would have a line that nobody needs."""
    rests = iter([[], [Outgoing("t", b"a", b"new", partition=0)]])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(FetchingLog, "_rest", lambda *_: log.append(next(rests)))
    most = "4" if options else "1"

    assert main(["tail", "t", "--transport", url, "-n", most, *options]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "new"
    assert said.err == (line if terminal else "")


@pytest.mark.usefixtures("log")
def test_missing_topic_and_missing_file_are_one_line(url: str, capsys: Said) -> None:
    """The topics that are there are named; a mistyped file is not made."""
    other = f"{url}x"

    assert main(["tail", "u", "--transport", url]) == 2
    assert capsys.readouterr().err == f"headwater: {url} has no topic 'u'; topics are t\n"
    assert main(["tail", "t", "--transport", other]) == 2
    assert "no such file" in capsys.readouterr().err
    assert not Path(other.removeprefix("sqlite:")).exists()


@contextmanager
def following(url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A `tail` of topic t in a process of its own, killed where it has not ended at the end.

    Leaving a Popen waits for its process, and this one follows for ever.
    """
    command = [sys.executable, "-m", "consumers", "tail", "t", "--transport", url, *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_new_records_are_printed_as_they_come_until_ctrl_c(url: str, log: Log) -> None:
    """A record written while it runs appears at once; Ctrl-C ends with 0 and without a word."""
    with following(url, "--from-beginning") as process:
        assert process.stdout is not None
        before = [process.stdout.readline() for _ in range(3)]
        log.append([Outgoing("t", None, b"new", 1003)])
        new = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=PATIENCE)

    assert '{"x": "é"}\n' in before
    assert new == "new\n"
    assert (rest, err, process.returncode) == ("", "", 0)


@pytest.mark.parametrize("options", [["--drain"], []])
def test_closed_pipe_ends_it_with_success(url: str, log: Log, options: list[str]) -> None:
    """As in `headwater tail … | head -1`."""
    log.append([Outgoing("t", None, b"x" * 1000, 1003) for _ in range(2000)])
    with following(url, "--from-beginning", *options) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        code = process.wait(timeout=PATIENCE)
        assert process.stderr is not None
        err = process.stderr.read()

    assert (code, err) == (0, "")


def test_records_cannot_control_the_terminal(url: str, log: Log, capsys: Said) -> None:
    """No control code of any kind is printed, and a line of the envelope is the same JSON."""
    every = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))
    log.create_topic("hostile", 1)
    value = json.dumps({"x": every}, ensure_ascii=False).encode()
    log.append(
        [
            Outgoing("hostile", every.encode(), every.encode(), 1000, ((every, b"\x1b[2J"),), 0),
            Outgoing("hostile", b"k", value, 1000, (("h", every.encode()),), 0),
        ]
    )
    for more in ([], ["--envelope"]):
        main(["tail", "hostile", "--transport", url, "--from-beginning", "--drain", *more])
        said = capsys.readouterr().out

        assert {c for c in said if not c.isprintable()} <= {"\n", "\t"}
    assert json.loads(said.splitlines()[1])["value"] == {"x": every}


@pytest.mark.usefixtures("log")
def test_resumed_tail_continues_after_what_was_printed(
    url: str, log: Log, tmp_path: Path, capsys: Said
) -> None:
    """Each record once, if nothing was killed; --from-beginning counts at the first start only."""
    resume = ["--resume", str(tmp_path / "t.pos"), "--from-beginning", "--drain"]

    assert main(["tail", "t", "--transport", url, *resume, "-n", "2"]) == 0
    first = lines(capsys)
    log.append([Outgoing("t", None, b"new", 1003, (), 1)])
    assert main(["tail", "t", "--transport", url, *resume]) == 0
    second = lines(capsys)
    assert main(["tail", "t", "--transport", url, *resume]) == 0

    assert (len(first), len(second), lines(capsys)) == (2, 2, [])
    assert sorted(first + second) == ["\\xffplain", "new", "null", '{"x": "é"}']


@pytest.mark.usefixtures("log")
def test_tail_without_advance_repeats_until_another_command_stores(
    url: str, tmp_path: Path, capsys: Said
) -> None:
    """`produce --resume` does that, when it has written the records."""
    resume = ["--resume", str(tmp_path / "t.pos"), "--no-advance", "--from-beginning", "--drain"]

    assert main(["tail", "t", "--transport", url, *resume]) == 0
    first = lines(capsys)
    assert main(["tail", "t", "--transport", url, *resume]) == 0

    assert len(first) == 3
    assert lines(capsys) == first


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--follow", "--drain"], "--follow waits for new records"),
        (["--no-advance"], "expected --resume FILE with --no-advance"),
    ],
)
def test_options_of_tail_that_exclude_each_other_are_one_line(
    url: str, capsys: Said, options: list[str], words: str
) -> None:
    """Exit code 2."""
    assert main(["tail", "t", "--transport", url, *options]) == 2
    assert words in capsys.readouterr().err


def test_positions_are_not_stored_for_lines_that_could_not_be_written(
    url: str, log: Log, tmp_path: Path
) -> None:
    """The reader of the pipe is gone: the next start repeats all that it may not have read."""
    path = tmp_path / "t.pos"
    log.append([Outgoing("t", None, b"x" * 1000, 1003, (), 0) for _ in range(2000)])
    with following(url, "--follow", "--from-beginning", "--resume", str(path)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        code = process.wait(timeout=PATIENCE)

    stored = json.loads(path.read_bytes())["next"]
    assert code == 0
    assert stored["0"] < 200  # a pipe has 64 KiB, and stdout a buffer


def test_quiet_tail_ends_when_its_reader_does(url: str, log: Log, tmp_path: Path) -> None:
    """Else the rest of a pipeline that died would wait for the next record."""
    resume = ["--follow", "--resume", str(tmp_path / "t.pos")]
    with following(url, *resume) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        until(lambda: (tmp_path / "t.pos").exists())
        log.append([Outgoing("t", None, b"one", 1003)])
        process.stdout.readline()
        process.stdout.close()
        code = process.wait(timeout=PATIENCE)

        assert (code, process.stderr.read()) == (0, "")


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_output_that_was_closed_before_is_no_bug(
    url: str, log: Log, closed: str, tmp_path: Path
) -> None:
    """It ends quietly, and no position advances over lines that nobody has read."""
    stored = tmp_path / "positions"
    tail = f"tail t --transport {url} --from-beginning --resume {stored}"
    made = tmp_path / "records.jsonl"
    made.write_text('{"x": 1}\n')
    for command in (tail, f"produce t {made} --transport {url}"):
        done = subprocess.run(
            f"{sys.executable} -m consumers {command} {closed}",
            shell=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    assert not stored.exists()
    ends = log.end_offsets([Partition("t", 0), Partition("t", 1)])
    assert sum(ends.values()) == 4  # the second command has done its work


def test_reader_of_both_streams_may_end_first(url: str, log: Log) -> None:
    """`2>&1 | head -1`: nothing is left to write to, so nothing is said."""
    log.append([Outgoing("t", None, b"x" * 1000, 1, (), 0)] * 500)  # more than a pipe holds
    with subprocess.Popen(
        [sys.executable, "-m", "consumers", "tail", "t", "--transport", url, "--from-beginning"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 0

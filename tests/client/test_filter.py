"""`headwater classify` and `headwater learn` beside a service of mail."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from consumers.base.records import Partition
from headwater import Client
from headwater.cli import COMMANDS, main
from headwater.mail import mail_key
from tests.acceptance.service import HEADWATER
from tests.waiting import until
from tests.web.living import Living, living

Run = Callable[..., tuple[int, bytes, str]]
BUDGET = '{label = "spam", rate = 0.2, unsure = 0.5, min_learned = 5}'
MORE = f"""
[labels]
corrections = true
[decision]
max_false_positive_rate = {BUDGET}
[serve]
max_age = "10ms"
"""
NOBODY = "http://127.0.0.1:9"


def mail(n: int, *, spam: bool) -> bytes:
    """One of many mails."""
    words = "cheap pills and prizes" if spam else "minutes of the meeting"
    head = f"Message-ID: <{n}@example.org>\nFrom: a@example.org\nSubject: {words}\n"
    return f"{head}\n{words} number {n}\n".encode()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs the command line with a mail on stdin: exit code, stdout, stderr."""

    def done(*words: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(list(words))
        out, err = capsysbinary.readouterr()
        return code, out, err.decode()

    return done


@pytest.mark.parametrize("words", [[], ["-e"], ["-t"], ["-I", "mail"]])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_closed_stdin_or_stdout_is_no_verdict(
    words: list[str], closed: str, tmp_path: Path
) -> None:
    """Exit code 3, without a traceback: 0 and 1 would say spam and ham."""
    (tmp_path / "mail").write_bytes(mail(1, spam=True))
    line = f"exec {shlex.join([HEADWATER, 'classify', '--url', NOBODY, *words])} {closed}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, stderr=subprocess.PIPE, check=False)

    assert done.returncode == 3
    assert b"Traceback" not in done.stderr


def folder(path: Path, numbers: range, *, spam: bool) -> Path:
    """A folder of a Maildir with one more folder in it."""
    for name in ("cur", "new", ".Other/cur"):
        (path / name).mkdir(parents=True)
    for n in numbers:
        where = path / ("new" if spam and n % 2 else "cur")  # people leave spam unread
        (where / f"{1_600_000_000 + n}.host:2,S").write_bytes(mail(n, spam=spam))
    if not spam:
        (path / "new" / "1700000000.host").write_bytes(mail(7, spam=spam))
    (path / ".Other" / "cur" / "x").write_bytes(mail(10**6, spam=not spam))
    (path / "cur" / ".hidden").write_bytes(b"x")
    return path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    """A spam filter that has learned nothing."""
    path = tmp_path_factory.mktemp("filter")
    kind = {"wire": "mail", "model": "MultinomialNB", "features": 'text = "text"'}
    with living(path, transport="sqlite", more=MORE, **kind) as running:
        yield running


def learned(service: Living, n: int) -> None:
    """Wait until the service has learned n labels, and answers by them."""
    feed = service.status_feed
    until(lambda: (c := feed.copies.newest) is not None and c.learned >= n)


def test_filter_learns_folders_and_speaks(service: Living, run: Run, tmp_path: Path) -> None:
    """From unsure to spam and ham. What is learned again changes nothing."""
    url = ("--url", service.url)
    first = run("classify", "-t", *url, stdin=mail(0, spam=True))
    junk = folder(tmp_path / "Junk", range(100, 140), spam=True)
    inbox = folder(tmp_path / "Inbox", range(200, 250), spam=False)
    code, out, _ = run("learn", "--spam", str(junk), "--ham", str(inbox), *url)
    learned(service, 90)
    again = run("learn", "--spam", str(junk), *url)
    spam = run("classify", *url, stdin=mail(1, spam=True))
    ham = run("classify", *url, "--explain", "2", stdin=mail(2, spam=False))
    unknown = run("classify", "--spam-label", "phish", *url, stdin=mail(1, spam=True))
    nothing = run("learn", "--spam", *url)
    quiet = run("classify", "-q", *url, stdin=mail(1, spam=True))
    embedded = run("classify", "-e", "-p", *url, stdin=mail(2, spam=False))
    budget = service.status_feed.view.budget

    assert (first[0], first[1]) == (2, b"unsure 0.500000\n")
    assert (code, out) == (
        0,
        b"sent: 40 as spam, 50 as ham; skipped: 1 unread (--unread takes them)\n",
    )
    assert (unknown[0], unknown[1]) == (3, mail(1, spam=True))
    assert "no label 'phish', but spam, ham; give --spam-label" in unknown[2]
    assert nothing[0] == 2
    assert "expected a mail, got none" in nothing[2]
    assert again[1] == (
        b"sent: 40 as spam, 0 as ham; 40 were known, and only their labels were written\n"
    )
    assert spam[0] == 0
    assert spam[1].startswith(b"X-Headwater: spam score=1.000000 model=svc/MultinomialNB/90\n")
    assert spam[1].endswith(mail(1, spam=True))
    assert ham[0] == 1
    assert ham[1].count(b"=", ham[1].index(b"-Why:"), ham[1].index(b"Message-ID")) == 2
    assert quiet[:2] == (0, b"")
    assert embedded[0] == 0
    assert embedded[1].startswith(b"X-Headwater: ham")
    assert budget.learned == (40, 50)
    assert budget.others > 40  # predicted before they were learned
    assert budget.false_positives == 0


def test_mail_learned_as_the_other_one_is_corrected(service: Living, run: Run) -> None:
    """By the id that `classify --record` used too; mbox and one mail on stdin."""
    url = ("--url", service.url)
    recorded = run("classify", "--record", *url, stdin=mail(900, spam=True))
    box = b"From a Mon\n" + mail(900, spam=True) + b"\nFrom a Mon\n" + mail(901, spam=True) + b"\n"
    as_ham = run("learn", "--ham", *url, stdin=box)
    with Client(service.url) as client:
        until(lambda: client.prediction(mail_key(mail(901, spam=True))) is not None)
    as_spam = run("learn", "--spam", *url, stdin=recorded[1])
    until(lambda: service.status_feed.view.labels.get("corrected") == 1)

    assert b"2 as ham; 1 was known" in as_ham[1]
    assert b"1 as spam, 0 as ham; 1 was known" in as_spam[1]


def test_labels_have_their_reporter(service: Living, run: Run) -> None:
    """In the field that the service reads."""
    who = ("--reporter", "ann", "--reporter-field", "by.user")
    assert run("learn", "--spam", *who, "--url", service.url, stdin=mail(950, spam=True))[0] == 0
    at = Partition("ans", 0)
    end = service._feed.end_offsets([at])[at]
    (last,) = service._feed.read({at: end - 1}, {at: end})

    assert json.loads(last.values[0]) == {
        "id": mail_key(mail(950, spam=True)),
        "label": "spam",
        "by.user": "ann",
    }


def test_mail_in_both_folders_is_counted(service: Living, run: Run, tmp_path: Path) -> None:
    """And the same mail twice; the last label counts."""
    one, other = tmp_path / "a.eml", tmp_path / "b.eml"
    one.write_bytes(mail(950, spam=True))
    other.write_bytes(b"Received: x\n" + mail(950, spam=True))
    spam, url = ("--spam", str(one)), ("--url", service.url)

    last = tmp_path / "c.eml"
    last.write_bytes(mail(951, spam=True))
    twice = run("learn", *spam, "--spam", str(other), "--spam", str(last), *url)[1]
    assert b"sent: 2 as spam" in twice
    assert b"; 1 came twice" in twice
    assert b"; 1 came with both labels" in run("learn", *spam, "--ham", str(other), *url)[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--url", NOBODY), "expected an answer from http://127.0.0.1:9"),
        (("--url", "ftp://x"), "expected http://HOST:PORT"),
        (("--nonsense",), "No such option"),
        (("--explain", "many"), "Invalid value"),
        (("--token", "/nowhere", "--url", NOBODY), "--token /nowhere: cannot be read"),
    ],
)
def test_mail_passes_unchanged_when_something_is_wrong(
    run: Run, words: tuple[str, ...], expected: str
) -> None:
    """With exit code 3, which is no verdict."""
    value = b"X-Headwater: ham\r\n" + mail(1, spam=True) + b"\xff\x00"
    code, out, err = run("classify", *words, "--timeout", "1", stdin=value)

    assert (code, out) == (3, value)
    assert expected in err


def test_wrong_service_changes_nothing(service: Living, run: Run) -> None:
    """Its answer is no verdict: a label of spam that it does not know, a field it does not read."""
    value = mail(1, spam=True)
    code, out, err = run("classify", "--url", f"{service.url}/elsewhere", stdin=value)

    assert (code, out) == (3, value)
    assert "404" in err


def test_nothing_on_stdin_is_no_mail(run: Run) -> None:
    """An empty mail is not ham."""
    assert run("classify", "--url", NOBODY)[:2] == (3, b"")
    assert run("classify", "-q", "--url", NOBODY, stdin=b"x")[:2] == (3, b"")


def test_output_that_cannot_be_written_is_an_error(service: Living) -> None:
    """A full disk or a closed pipe must not look like spam, whose exit code is 0."""
    words = [sys.executable, "-m", "headwater", "classify", "--url", service.url]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            words, input=mail(1, spam=True), stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert done.returncode == 3
    assert b"No space left" in done.stderr


def test_learn_waits_for_a_service_that_starts(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`learn` in one terminal, while `run` compiles its kernels in another."""
    (tmp_path / "mail").write_bytes(mail(1, spam=True))
    answers = [503] * 8
    path = ("--spam", str(tmp_path / "mail"))

    class Starting(BaseHTTPRequestHandler):
        """Answers 503, and once it has started 404: it knows no mail, and takes none."""

        def do_GET(self) -> None:
            self.send_response(answers.pop() if answers else 404)
            self.send_header("retry-after", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    monkeypatch.setattr("headwater.exchange.FIRST_PAUSE", 0.001)
    with HTTPServer(("127.0.0.1", 0), Starting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        code, _, err = run("learn", *path, "--url", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()

    assert answers == []
    assert (code, "404" in err) == (1, True)


def test_learn_is_refused_in_one_line(run: Run, tmp_path: Path) -> None:
    """Before anything is asked."""
    (tmp_path / "cur").mkdir()
    wrong = [
        ((), "expected --spam PLACE or --ham PLACE"),
        (("--spam", "--ham"), "stdin can be given once"),
        (("--spam", str(tmp_path)), "the directory has no mails"),
        (("--spam", "nowhere"), "nowhere: no such file or directory"),
        (("--spam", "--ham-label", "spam"), "expected two labels"),
    ]
    for words, expected in wrong:
        code, _, err = run("learn", *words)

        assert code == 2
        assert expected in err


def test_both_commands_are_listed() -> None:
    """Beside those of the service."""
    assert {"classify", "learn", "run"} < COMMANDS.keys()


def test_client_of_a_filter_loads_no_learner() -> None:
    """A mail server starts it once a mail: numpy alone would take a tenth of a second."""
    code = "import sys, headwater.client, headwater.commands.classify, headwater.mail\n"
    code += "print(sorted({'numpy', 'stream.data', 'pydantic', 'numba'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"

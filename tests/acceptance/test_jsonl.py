"""kill -9 on JSON lines: no prediction is lost, and one that is repeated has the same bytes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.records import Partition
from consumers.config import load
from consumers.service.recovery import rebuild, sources
from consumers.transports import open_log
from stream import GaussianNB
from stream.evaluate.progressive import progressive
from tests.acceptance.service import Service
from tests.acceptance.test_kill import split
from tests.calling import call
from tests.consumers.feeds import config_text, feed, fill, phishing
from tests.stores import the_store

DELAY = 50
RECORDS = phishing()
KILLS = (1, 300, 301, 650, 1000)  # predictions there are, at least


class Files:
    """What the service leaves in the directory, looked at from outside while it runs."""

    def __init__(self, directory: Path) -> None:
        """All records but for the last ones: so a kill always comes before the end."""
        self.directory = directory
        self.config = directory / "svc.toml"
        self.url = f"jsonl:{directory / 'log'}"
        self.config.write_text(config_text("jsonl:log", sorted(RECORDS[0][0]), 20, 50))
        sent, self._rest = split(feed(RECORDS, DELAY), KILLS[-1] + 100)
        with closing(open_log(self.url)) as log:
            fill(log, [])
            log.append(sent)

    def send_rest(self) -> None:
        """Send the last ones."""
        with closing(open_log(self.url)) as log:
            log.append(self._rest)

    def lines(self, topic: str) -> list[bytes]:
        """The whole lines of a topic."""
        path = self.directory / "log" / topic / "0.jsonl"
        return [line for line in path.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n"]


@pytest.fixture(scope="module")
def survived(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A service that was killed five times and then drained its inputs."""
    files = Files(tmp_path_factory.mktemp("jsonl"))
    for least in KILLS:
        before = len(files.lines("svc-journal"))

        def enough(least: int = least, before: int = before) -> bool:
            grown = len(files.lines("svc-journal")) > before
            return grown and len(files.lines("svc-predictions")) >= least

        with Service(files.config) as service:
            service.wait_until(enough)
            service.kill()
            assert service.code == -9
    files.send_rest()
    call("run", files.config, "--drain", code=0)
    return files


def said(files: Files) -> Iterator[tuple[str, str]]:
    """Id and text of each prediction."""
    for line in files.lines("svc-predictions"):
        value = json.loads(line)["value"]
        yield json.loads(value)["id"], value


def test_no_prediction_is_lost_and_repeats_have_the_same_bytes(survived: Files) -> None:
    """At least once, by the journal record that says which outputs to write again."""
    found = list(said(survived))

    assert {key for key, _ in found} == {str(i) for i in range(len(RECORDS))}
    assert len(set(found)) == len(RECORDS)
    assert max(Counter(key for key, _ in found).values()) <= 1 + len(KILLS)


def test_state_is_that_of_the_journal_and_of_a_run_without_kills(survived: Files) -> None:
    """Whatever was interrupted (I2)."""
    config = load(survived.config)
    with closing(open_log(survived.url)) as log:
        found = sources(config, log)
        end = log.end_offsets([found.journal])[found.journal]
        live = rebuild(config, log, found, None, end=end)
    about, state = next(the_store(survived.directory / "headwater-state", "svc").newest(print))
    *_, expected = progressive(RECORDS, GaussianNB(), delay=DELAY)

    assert about.position == live.position
    assert live.shard.fingerprint() == state.fingerprint()
    assert live.shard.view().quality.scores == expected.scores


def test_second_process_ends_with_exit_code_3_in_one_line(survived: Files) -> None:
    """While the first one owns the shard."""
    with closing(open_log(survived.url)) as log:
        log.owner("svc", 0, [Partition("obs", 0), Partition("ans", 0)])
        done = call("run", survived.config, "--drain", code=3)

    assert "owns it and still runs" in done.stderr.splitlines()[-1]


def test_check_says_what_to_set_where_exactly_once_is_asked(survived: Files, tmp_path) -> None:
    """The default guarantee, on a transport without transactions."""
    wrong = tmp_path / "svc.toml"
    wrong.write_text(survived.config.read_text().replace('guarantee = "at_least_once"', ""))
    done = call("check", wrong, code=2)

    assert 'set [commit] guarantee = "at_least_once"' in done.stdout + done.stderr

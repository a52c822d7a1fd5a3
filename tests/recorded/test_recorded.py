"""Journals that an earlier version of the code wrote come out bit for bit today.

`services/` was recorded by `python -m tests.recorded.record` on 2026-11-29, when formats became
those of today: corrections, dead letters, labels that come early, late and twice, drift that resets
a model or promotes a challenger, decisions, rollbacks, promotions, records that were passed over;
on the embedded log and on Kafka. The fingerprints are of 2026-11-30: since then the state counts
what was cut and converted, and nothing else of it differs; the identity got `max_weight`, so that
the journals are those of today's configuration. Services of 2026-11-22, converted on
2026-11-29, had the same predictions and dead letters, byte for byte.
"""

from __future__ import annotations

import json
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest

from consumers.base.records import OutgoingColumns, Record
from consumers.cli import main
from consumers.config import load as load_config
from consumers.journal import records as journal
from consumers.journal.reader import course
from consumers.service.recovery import rebuild, sources
from consumers.service.replay import steps
from consumers.transports import open_log
from tests.recorded.log import load, read, restore

SERVICES = Path(__file__).parent / "services"
EMBEDDED = sorted(p.name for p in SERVICES.iterdir() if p.name.endswith("-sqlite"))
KAFKA = sorted(p.name for p in SERVICES.iterdir() if p.name.endswith("-kafka"))
AUDITED = 7  # predictions of a service, from its first to its last
RIVER = "skips-sqlite"  # its model is river's


def restored(name: str, directory: Path, url: str, bootstrap: str = "") -> list[Record]:
    """The recorded log at `url` and its configuration in `directory`; the records."""
    topics, records = load(SERVICES / name / "log.xz")
    with closing(open_log(url)) as log:
        restore(log, topics, records, bootstrap)
        assert [r for r in read(log) if r.topic in topics] == records
    text = (SERVICES / name / "config.toml").read_text()
    (directory / "svc.toml").write_text(text.replace("TRANSPORT", url))
    return records


def comes_out(name: str, directory: Path, records: list[Record], out: pytest.CaptureFixture[str]):
    """Rebuild the model at each recorded position, and make some predictions again."""
    config = str(directory / "svc.toml")
    for position, expected in json.loads((SERVICES / name / "expected.json").read_text()).items():
        assert main(["rebuild", config, "--at", position, "--json"]) == 0
        told = json.loads(out.readouterr().out)
        assert {key: told[key] for key in expected} == expected, position
    said = [r for r in records if r.topic == "verdicts"]
    for record in said[:: -(-len(said) // AUDITED)]:
        assert record.value is not None
        where = json.loads(record.value)["position"]
        observation = f"{where['topic']}:{where['partition']}:{where['offset']}"
        assert main(["audit", config, observation]) == 0, out.readouterr().out
        out.readouterr()


@pytest.mark.parametrize("name", EMBEDDED)
def test_service_of_the_embedded_log_comes_out_bit_for_bit(name, tmp_path, capsys) -> None:
    """State, counts and predictions are those of the code that wrote the journal."""
    records = restored(name, tmp_path, f"sqlite:{tmp_path / 'log.db'}")
    comes_out(name, tmp_path, records, capsys)


@pytest.mark.parametrize("name", EMBEDDED)
def test_predictions_are_written_in_the_same_bytes(name, tmp_path) -> None:
    """By columns and one by one: the recorded ones, of all commits that no rollback removed."""
    records = restored(name, tmp_path, f"sqlite:{tmp_path / 'log.db'}")
    seen = rounded if name == RIVER else bytes
    written = {(r.key, r.timestamp, seen(r.value)) for r in records if r.topic == "verdicts"}
    config = load_config(tmp_path / "svc.toml")
    with closing(open_log(config.input.transport)) as log:
        found = sources(config, log)
        end = log.end_offsets([found.journal])[found.journal]
        live = rebuild(config, log, found, None, end=1)
        ahead = course(log, found.journal, live.position, end)
        outcomes = [outcome for _, outcome in steps(log, found, live, end, ahead)]
    by_columns = [outcome.predictions() for outcome in outcomes if outcome.ids]
    again = list(chain.from_iterable(by_columns))

    assert all(isinstance(made, OutgoingColumns) for made in by_columns)
    assert again == list(chain.from_iterable(outcome.one_by_one() for outcome in outcomes))
    assert {(r.key, r.timestamp, seen(r.value)) for r in again} <= written
    assert len(again) > len(written) / 2


def rounded(prediction: bytes) -> bytes:
    """With probabilities of 12 digits. river's GaussianNB takes exp and log of numpy, whose last
    bit depends on the processor."""
    told = json.loads(prediction)
    told["probabilities"] = [[label, f"{p:.12g}"] for label, p in told["probabilities"]]
    return json.dumps(told).encode()


@pytest.mark.kafka
@pytest.mark.parametrize("name", KAFKA)
def test_service_of_kafka_comes_out_bit_for_bit(name, tmp_path, capsys, kafka_bootstrap) -> None:
    """Each record lies at its offset, the ends of transactions between them."""
    records = restored(name, tmp_path, f"kafka://{kafka_bootstrap}", kafka_bootstrap)
    comes_out(name, tmp_path, records, capsys)


@pytest.mark.parametrize("name", EMBEDDED + KAFKA)
def test_journal_is_written_in_the_same_bytes(name) -> None:
    """What is read of a journal's record is written as it was."""
    values = [r.value for r in load(SERVICES / name / "log.xz")[1] if r.topic == "journal"]

    assert [journal.encode(journal.decode(value)) for value in values if value] == values


@pytest.mark.parametrize("name", EMBEDDED)
def test_recorded_service_goes_on(name, tmp_path, capsys) -> None:
    """A start finds the journal to be its own, and nothing left to do."""
    records = restored(name, tmp_path, f"sqlite:{tmp_path / 'log.db'}")
    config = tmp_path / "svc.toml"
    assert main(["run", str(config), "--drain", "--same-topic"]) == 0
    settings = load_config(config)
    with closing(open_log(settings.input.transport)) as log:
        left = [r for r in read(log) if r.topic == "verdicts"]

    assert left == [r for r in records if r.topic == "verdicts"]

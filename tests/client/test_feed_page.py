"""docs/howto/feed.md: its Python runs beside a service, its Kafka producer feeds one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from uuid import uuid4

import pytest

from consumers.cli import main
from headwater import Client
from tests.acceptance.service import Service
from tests.commands.ports import other_port

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/howto/feed.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRODUCER = [code for code in BLOCKS if "KafkaProducer" in code]
CLIENTS = [code for code in BLOCKS if "headwater" in code]
CONFIG = """
name = "payments"
[input]
transport = "{transport}"
observations = "payments"
labels = "payments-labels"
[features]
amount = "numeric"
country = "categorical"
[model]
type = "MixedNB"
[http]
port = 0
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With payments.toml, as the page assumes."""
    path = tmp_path_factory.mktemp("feed")
    (path / "payments.toml").write_text(CONFIG.format(transport="sqlite:log.db"))
    return path


@pytest.fixture(scope="module")
def service(directory: Path) -> Iterator[str]:
    """The address of a service that runs."""
    config = directory / "payments.toml"
    assert main(["check", str(config), "--create"]) == 0
    with Service(config) as running:
        yield "http://" + running.wait_said(r"metrics on http://(\S+)/metrics")[1]


@pytest.mark.parametrize("code", CLIENTS)
def test_clients_of_the_page_run_beside_a_service(
    code: str,
    service: str,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a newcomer would paste them, at the port of this service."""
    monkeypatch.chdir(directory)

    exec(compile(code.replace("http://localhost:8321", service), "feed.md", "exec"), {})

    assert capsys.readouterr().out


def test_every_python_block_of_the_page_is_run() -> None:
    """By one of these tests."""
    assert len(CLIENTS) == 4
    assert len(PRODUCER) == 1
    assert len(BLOCKS) == 5


def test_service_of_the_readme_takes_what_the_page_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its labels are truth values and its ids are numbers: nothing becomes a dead letter."""
    monkeypatch.chdir(tmp_path)
    labels = ["--label-topic", "payments-labels", "--label", "fraud", "--delay", "50"]
    assert main(["sample", "payments"]) == 0
    assert main(["init", "payments.csv", "--label", "fraud", "--no-look"]) == 0
    other_port("payments.toml")
    assert main(["check", "payments.toml", "--create"]) == 0
    assert main(["produce", "payments", "payments.csv", "--config", "payments.toml", *labels]) == 0
    (code,) = [each for each in CLIENTS if "label_many" in each]

    exec(compile(code, "feed.md", "exec"), {})
    assert main(["run", "payments.toml", "--drain"]) == 0

    assert "9,000 observations, 9,000 learned, accuracy" in capsys.readouterr().err


@pytest.mark.kafka
def test_plain_producer_of_the_page_feeds_a_service(kafka_bootstrap: str, tmp_path: Path) -> None:
    """The key is the id, and the times decide what was known when."""
    suffix = uuid4().hex[:8]
    text = CONFIG.format(transport=f"kafka://{kafka_bootstrap}").replace("payments", f"p-{suffix}")
    config = tmp_path / "payments.toml"
    config.write_text(text.replace("port = 0", "enabled = false"))
    assert main(["check", str(config), "--create"]) == 0
    (code,) = PRODUCER
    code = code.replace("localhost:9092", kafka_bootstrap)
    code = code.replace('"payments', f'"p-{suffix}')

    exec(compile(code, "feed.md", "exec"), {})
    assert main(["run", str(config), "--drain"]) == 0

    resume = tmp_path / "predictions.pos"
    with Client.from_config(config) as client:
        stream = client.predictions(from_beginning=True, resume=resume)
        found = list(islice(stream, 100))
        stream.close()
        with client.predictions(resume=resume) as again:
            repeated = next(again)
        written = [client.observe({"amount": 5.0}), client.label("p-0", False)]
    assert [each.id for each in found] == [f"p-{n}" for n in range(100)]
    assert [each.ts for each in found] == [1_764_000_000_000 + 1000 * n for n in range(100)]
    # A label has the time at which it became known: 20 observations later.
    assert [each.model.learned for each in found] == [max(0, n - 20) for n in range(100)]
    assert found[96].prediction is True
    assert found[97].prediction is False
    assert repeated == found[-1]
    assert [(each.topic, each.offset) for each in written] == [
        (f"p-{suffix}", 100),
        (f"p-{suffix}-labels", 100),
    ]

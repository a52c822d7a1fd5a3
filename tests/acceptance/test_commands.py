"""The path of "your own topic in five minutes": init, check, produce, run, tail, replay."""

from __future__ import annotations

import csv
import json
import random
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import PAGES, Shell

LABELS = ["--label", "is_phishing", "--delay", "50"]


@dataclass
class Own:
    """A CSV taken all the way, and what each step said."""

    shell: Shell
    init: list[str]
    config: str
    checked: list[str]
    produced: list[str]
    drained: str
    predictions: list[dict[str, Any]]

    @property
    def truth(self) -> dict[str, str]:
        """Id to label, as the file has them."""
        with (self.shell.directory / "pages.csv").open() as file:
            return {row["id"]: row["is_phishing"] for row in csv.DictReader(file)}

    @property
    def accuracy(self) -> float:
        """Share of right predictions, of those that were made with any label known."""
        truth = self.truth
        scored = [p for p in self.predictions if p["prediction"] is not None]
        return sum(p["prediction"] == truth[p["id"]] for p in scored) / len(scored)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, pages: Path) -> Own:
    """The commands `init` prints, typed one after the other."""
    shell = Shell(tmp_path_factory.mktemp("own"))
    shell.write("pages.csv", pages.read_text())
    init = shell.lines("init", "pages.csv", "--label", "is_phishing")
    # Whatever else listens on this machine's 8321 is not what is tested.
    config = shell.edit("pages.toml", ("port = 8321", "port = 0"))
    check, produce, run, paced = (
        shlex.split(line.partition("    #")[0])[1:]
        for line in init
        if line.startswith("  headwater ")
    )
    assert paced == [*produce, "--rate", "50"]
    checked, produced = shell.lines(*check), shell.lines(*produce)
    drained = shell(*run, "--drain").stderr
    tail = ["tail", "pages-predictions", "--config", "pages.toml", "--from-beginning", "--drain"]
    predictions = [json.loads(line) for line in shell.lines(*tail)]
    return Own(shell, init, config, checked, produced, drained, predictions)


def test_init_says_why_for_every_field_and_for_the_model(own: Own) -> None:
    """Numbers, truth values and categories, each with figures from the sample."""
    said = {line.split()[0]: line.split(maxsplit=2)[1:] for line in own.init if line[:2] == "  "}

    assert said["is_popular"] == ["numeric", "500 of 500 values are numbers"]
    assert said["ip_in_url"][0] == "binary"
    assert said["https"] == ["categorical", "3 of 500 values distinct, strings"]
    assert [line for line in own.init if line.startswith("label is_phishing: 2 classes: no ")]
    assert [line for line in own.init if line.startswith("model auto: ")]


def test_init_shows_the_scores_that_the_run_had(own: Own) -> None:
    """Of the chosen model, beside others and guessing; the same table is in the file."""
    first = next(n for n, line in enumerate(own.init) if line.startswith("  The first 1,250 rec"))
    last = own.init.index(next(line for line in own.init if line.startswith("  guess: last")))
    table = own.init[first : last + 1]
    [chosen] = (line.split() for line in table if line.endswith("chosen"))
    replay = ["replay", "pages.toml", "--journal", "--json"]
    scores = json.loads(own.shell(*replay).stdout)["scores"]["all"]

    assert table[0] == "  The first 1,250 records, each label 50 records late:"
    assert chosen[1:3] == [f"{scores['accuracy']:.1%}", f"{scores['log_loss']:.3f}"]
    assert all(f"# {line}" in own.config for line in table)


def test_init_writes_a_commented_configuration(own: Own) -> None:
    """Each field has its reason beside it, the model above it, the file its origin on top."""
    fields = own.config.split("\n[features]\n")[1].split("\n[")[0].strip().splitlines()

    assert own.config.startswith("# Written by `headwater init` from 500 records of pages.csv")
    assert len(fields) == 9
    assert all("  # " in line for line in fields)
    assert 'is_phishing = "' not in own.config


def test_check_creates_missing_topics_after_showing_them(own: Own) -> None:
    """First what will be made, then every topic with its partitions."""
    created = [i for i, line in enumerate(own.checked) if line.startswith("create ")]
    listed = [i for i, line in enumerate(own.checked) if line.endswith(", 1 partition")]

    assert len(created) == len(listed) == 5
    assert max(created) < min(listed)
    assert own.produced[0].startswith("1,250 observations to pages, 1,250 labels to pages-labels")


def test_every_observation_has_one_prediction_in_order(own: Own) -> None:
    """By position and id, with probabilities, and none that saw its own label."""
    learned = [p["model"]["learned"] for p in own.predictions]

    assert [p["position"]["offset"] for p in own.predictions] == list(range(PAGES))
    assert [p["id"] for p in own.predictions] == list(own.truth)
    assert learned == [max(i - 49, 0) for i in range(PAGES)]
    assert sorted(own.predictions[-1]) == sorted(
        ["id", "prediction", "probabilities", "model", "position", "ts"]
    )
    assert sum(p for _, p in own.predictions[-1]["probabilities"]) == pytest.approx(1)
    assert own.accuracy > 0.85


def test_replay_of_the_file_scores_what_the_run_predicted(own: Own, tmp_path: Path) -> None:
    """The same accuracy from the file, from the journal, and counted by hand."""
    page = tmp_path / "report.html"
    replay = ["replay", "pages.toml"]
    file = own.shell(*replay, "pages.csv", *LABELS, "--json", "--report", page).stdout
    journal = own.shell(*replay, "--journal", "--json").stdout
    of_file, of_journal = json.loads(file), json.loads(journal)

    assert of_file["scores"] == of_journal["scores"]
    assert of_file["confusion"] == of_journal["confusion"]
    assert of_file["scores"]["all"]["accuracy"] == own.accuracy
    assert of_file["observations"] == of_file["learned"] == PAGES
    assert "<svg" in page.read_text()


def test_replay_is_progressive_validation_at_other_delays_too(own: Own) -> None:
    """Labels at once are worth more than labels a day late, which are never learned in time."""
    replay = ["replay", "pages.toml", "pages.csv", "--label", "is_phishing", "--json"]
    at_once = json.loads(own.shell(*replay).stdout)
    too_late = json.loads(own.shell(*replay, "--delay", "1d").stdout)

    assert at_once["scores"]["all"]["scored"] == PAGES - 1
    assert at_once["scores"]["all"]["accuracy"] > 0.85
    assert too_late["unscored"] == PAGES
    assert too_late["scores"]["all"]["accuracy"] is None


def test_text_in_json_lines_takes_the_same_path(shell: Shell) -> None:
    """Words are counted, and predictions are observations."""
    rng = random.Random(7)
    words = {"ham": ["lunch", "home", "meeting", "later"], "spam": ["win", "prize", "cash", "now"]}
    rows = []
    for _ in range(300):
        kind = rng.choice(["ham", "spam"])
        said = rng.choices(words[kind], k=5) + rng.choices(["the", "a", "you", "x9"], k=4)
        rows.append({"text": f"{' '.join(said)} {rng.random()}", "kind": kind})
    shell.write("sms.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    init = shell.lines("init", "sms.jsonl", "--label", "kind")
    shell.edit("sms.toml", ("port = 8321", "port = 0"))
    produce = next(line for line in init if line.startswith("  headwater produce"))
    shell(*shlex.split(produce.partition("    #")[0])[1:])
    shell("run", "sms.toml", "--drain")
    predictions = shell.values("sms.db", "sms-predictions")
    last = zip(predictions[200:], rows[200:], strict=True)

    assert [line for line in init if line.startswith("model auto: 1 field of text: ")]
    assert len(predictions) == len(rows)
    assert sum(p["prediction"] == row["kind"] for p, row in last) > 95


def test_topic_with_the_label_inside_is_sampled_learned_and_predicted_first(
    shell: Shell, pages: Path
) -> None:
    """`init TOPIC --label`: no second topic, and still no prediction knows its label."""
    url = "sqlite:feed.db"
    shell("produce", "visits", pages, "--transport", url)
    shell("init", "visits", "--label", "is_phishing", "--transport", url)
    shell.edit("visits.toml", ("port = 8321", "port = 0"))
    checked = shell.lines("check", "visits.toml")
    shell("run", "visits.toml", "--drain")
    predictions = shell.values("feed.db", "visits-predictions")

    assert "ok       [input] observations: visits, 1 partition" in checked
    assert [p["model"]["learned"] for p in predictions] == list(range(PAGES))
    assert predictions[0]["prediction"] is None


def test_first_start_infers_fields_and_begins_where_input_start_says(
    shell: Shell, pages: Path
) -> None:
    """The sample is not consumed, and what it showed is in the journal; later runs go on."""
    url = "sqlite:feed.db"
    labels = ["--label-topic", "answers", "--label", "is_phishing"]
    shell("produce", "visits", pages, "--transport", url, *labels)
    shell.write(
        "late.toml",
        'name = "late"\nmodel = {type = "GaussianNB"}\nhttp = {enabled = false}\n[input]\n'
        f'transport = "{url}"\nobservations = "visits"\nlabels = "answers"\nstart = "latest"\n',
    )
    shell("run", "late.toml", "--drain")
    none = shell.values("feed.db", "late-predictions")
    shell("produce", "visits", pages, "--transport", url, *labels)
    shell("run", "late.toml", "--drain")
    some = shell.values("feed.db", "late-predictions")
    identity = shell.values("feed.db", "late-journal")[0]

    assert none == []
    assert [p["position"]["offset"] for p in some] == list(range(PAGES, 2 * PAGES))
    assert ["https", "categorical"] in identity["fields"]
    assert ["is_popular", "numeric"] in identity["fields"]


def test_any_river_pipeline_runs_and_is_rebuilt_from_the_journal(own: Own) -> None:
    """Without trust_pickle nothing is saved; a restart says how much it replays."""
    shell = own.shell
    config = re.sub(r"(?m)^https = .*\n", "", own.config)  # a scaler takes numbers only
    shell.write(
        "tree.toml",
        config.split("\n[model]\n")[0].replace('name = "pages"', 'name = "tree"')
        + '[model]\ntype = "river:tree.HoeffdingTreeClassifier"\n'
        'pipeline = ["preprocessing.StandardScaler"]\n[http]\nport = 0\n',
    )
    shell("run", "tree.toml", "--drain")
    again = shell("run", "tree.toml", "--drain").stderr
    predictions = shell.values("pages.db", "tree-predictions")
    tree = replace(own, predictions=predictions)

    assert f"{2 * PAGES:,} records replayed, {PAGES:,} observations known" in again
    assert not list((shell.directory / "headwater-state").glob("tree/**/*.hws"))
    assert [p["position"]["offset"] for p in predictions] == list(range(PAGES))
    assert predictions[0]["model"]["type"] == "river:tree.HoeffdingTreeClassifier"
    assert tree.accuracy > 0.8

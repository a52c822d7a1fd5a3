"""`headwater replay --verify`: river's own loop repeats a replay and comes to the same scores."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from river import datasets

from consumers.cli import main
from consumers.commands import meter
from stream import GaussianNB
from stream.evaluate.verifier import PlainScores

RECORDS = 300
GAUSSIAN = '"GaussianNB"'
CONFIG = """
name = "pages"
input = {{ transport = "sqlite:log.db", observations = "seen", {label} }}
model = {{ type = {model} }}
commit = {{ max_records = 70 }}
http = {{ enabled = false }}
"""


@pytest.fixture
def records() -> list[dict[str, Any]]:
    """The first records of river's Phishing, three a second."""
    return [
        {"id": f"p{i}", **x, "at": 1_700_000_000 + i // 3, "y": y}
        for i, (x, y) in enumerate(islice(datasets.Phishing(), RECORDS))
    ]


@pytest.fixture
def file(tmp_path):
    """A function that writes records as JSON lines and returns the path."""

    def write(records: list[Any]) -> str:
        path = tmp_path / "pages.jsonl"
        lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
        path.write_text("".join(line + "\n" for line in lines))
        return str(path)

    return write


@pytest.fixture
def config(tmp_path):
    """A function that writes a configuration and returns the path."""

    def write(
        more: str = "", *, model: str = '"GaussianNB"', label: str = 'labels = "told"'
    ) -> str:
        path = tmp_path / "pages.toml"
        path.write_text(CONFIG.format(label=label, model=model) + more)
        return str(path)

    return write


@pytest.fixture
def verified(capsys):
    """A function that runs `replay … --verify --json`; returns exit code, result and stderr."""

    def run(*arguments: object) -> tuple[int, dict[str, Any], str]:
        code = main(["replay", *map(str, arguments), "--verify", "--json"])
        out, err = capsys.readouterr()
        return code, json.loads(out)["verification"] if out else {}, err

    return run


@pytest.mark.parametrize("delay", ["0", "1", "40", "1ms", "1s", "15s"])
@pytest.mark.parametrize("timed", [[], ["--time-field", "at"]], ids=["numbered", "timed"])
def test_river_comes_to_the_same_bits_with_any_delay(
    records, file, config, verified, delay, timed
) -> None:
    """With --time-field three records share each time, and their labels follow all three."""
    code, found, err = verified(config(), file(records), "--label", "y", "--delay", delay, *timed)

    assert code == 0, err
    assert found["differences"] == dict.fromkeys(found["differences"], 0.0)
    assert (found["equal"], found["largest_difference"], found["first"]) == (True, 0.0, None)
    assert found["records"] == found["compared"] == RECORDS
    assert "river 0." in found["by"]
    assert "evaluate.iter_progressive_val_score" in found["by"]


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ('"auto"', ""),
        ('"Mixture"', ""),
        ('"MixedNB", bins = {strategy = "quantile", n_bins = 4}', ""),
        ('"KNNClassifier", window = 50', ""),
        ('"GaussianNB", half_life = 40', ""),
        ('"river:tree.HoeffdingTreeClassifier", grace_period = 40', ""),
        (GAUSSIAN, "[labels]\ncorrections = true\n"),
        (GAUSSIAN, "[decision]\nreject = 0.3\n"),
        (GAUSSIAN, "[output]\nexplain = 2\ntop = 1\n"),
        ('"MixedNB"', '[features]\nip_in_url = "binary"\nhttps = "categorical"\n'),
        (GAUSSIAN, '[drift]\ndetectors = [{on = "error", type = "ADWIN"}]\n'),
        (GAUSSIAN, "[telemetry]\nwindow = 64\n"),
    ],
)
def test_settings_that_change_no_step_are_verified(
    records, file, config, verified, model, more
) -> None:
    """Models with parameters; corrections without a second label; decisions; mere alerts."""
    asked = (config(more, model=model), file(records), "--label", "y", "--delay", "25")

    code, found, err = verified(*asked)

    assert (code, found.get("largest_difference")) == (0, 0.0), err


def test_labels_inside_the_observations_are_verified(records, file, config, verified) -> None:
    """Each label is known before the next record."""
    code, found, _ = verified(config(label='label = "y"'), file(records))

    assert (code, found["largest_difference"], found["scored"]) == (0, 0.0, RECORDS - 1)


def test_a_file_out_of_order_is_verified_in_order_of_time(records, file, config, verified) -> None:
    """Both get the sorted records."""
    asked = ("--label", "y", "--time-field", "at", "--delay", "4s")

    code, found, _ = verified(config(), file(records[::-1]), *asked)

    assert (code, found["largest_difference"]) == (0, 0.0)


def test_dead_letters_and_challengers_are_left_out(records, file, config, verified, capsys) -> None:
    """Bad observations, with labels that wait in vain, and bad labels; a line says so."""
    records[50]["ip_in_url"] = [1]
    records[90]["y"] = "yes"
    records[120]["age_of_domain"] = "old"
    records[200]["y"] = None
    more = '[features]\nip_in_url = "numeric"\nage_of_domain = "numeric"\nhttps = "numeric"\n'
    more += '[[challenger]]\nname = "other"\ntype = "MixedNB"\n'
    path = config(more)
    for asked in (
        [path, file(records), "--label", "y", "--delay", "20"],
        [path, file(records), "--label", "y", "--delay", "9s", "--time-field", "at"],
    ):
        code, found, _ = verified(*asked)
        assert (code, found["largest_difference"], found["records"]) == (0, 0.0, RECORDS - 4)
        assert found["left_out"] == {"observations": 2, "labels": 1, "challengers": 1}

    assert main(["replay", *asked, "--verify"]) == 0
    assert (
        "left out: 2 dead letters among the observations, 1 dead letter among the labels, "
        "1 challenger\n"
    ) in capsys.readouterr().out


def test_people_read_what_was_compared(records, file, config, capsys) -> None:
    """The last two lines."""
    assert main(["replay", config(), file(records), "--label", "y", "--verify"]) == 0

    *_, by, largest = capsys.readouterr().out.splitlines()
    assert by.startswith("verified by river 0.")
    assert f": {RECORDS:,} records, {RECORDS - 1:,} scored, in " in by
    assert largest == "largest difference: 0"


def test_a_learner_that_predicts_otherwise_in_blocks_ends_with_1(
    records, file, config, capsys, monkeypatch
) -> None:
    """Its probability, the first record, and a line on stderr."""
    honest, asked = GaussianNB.predict_proba_one, []

    def tilted(self, x, **_):
        asked.append(1)
        said = honest(self, x)
        return said if len(asked) <= 120 else {y: p * (1 - 2**-20) for y, p in said.items()}

    monkeypatch.setattr(GaussianNB, "predict_proba_one", tilted)
    assert main(["replay", config(), file(records), "--label", "y", "--verify"]) == 1

    out, err = capsys.readouterr()
    assert "largest difference: 9.54e-07\n" in out
    assert "first prediction that differs: record 121 of the file\n" in out
    assert "  log_loss: " in out
    assert err.splitlines()[-1] == (
        "headwater: --verify: river's own loop gives other results; expected a difference of 0"
    )


def test_a_metric_that_counts_otherwise_ends_with_1(
    records, file, config, verified, monkeypatch
) -> None:
    """The predictions are equal, the scores are not."""
    honest = PlainScores.update

    def doctored(self, y_true, y_pred, w=1.0):
        honest(self, (not y_true) if self.scored == 150 else y_true, y_pred, w)

    monkeypatch.setattr(PlainScores, "update", doctored)
    code, found, _ = verified(config(), file(records), "--label", "y")

    assert (code, found["equal"]) == (1, False)
    assert found["differences"]["probability"] == 0.0
    assert found["differences"]["accuracy"] == pytest.approx(1 / (RECORDS - 1))
    assert found["largest_difference"] > 0.0


def test_progress_is_shown_above_a_second(records, file, config, verified, monkeypatch) -> None:
    """On stderr, as for the replay."""
    monkeypatch.setattr(meter, "SILENT_SECONDS", 0.0)

    _, _, err = verified(config(), file(records), "--label", "y")

    assert f" of {RECORDS:,} records verified by river" in err


DRIFT = '[drift]\naction = "reset"\ndetectors = [{on = "error", type = "ADWIN"}]\n'
PROMOTED = '[promotion]\nrule = "e_value"\n[[challenger]]\nname = "other"\ntype = "MixedNB"\n'


@pytest.mark.parametrize(
    ("more", "model", "asked", "message"),
    [
        (DRIFT, GAUSSIAN, [], 'no drift actions, and [drift] has action = "reset"; set it to'),
        (PROMOTED, GAUSSIAN, [], "runs one model, and [promotion] can replace it; set its"),
        (
            '[labels]\nhorizon = "1s"\n',
            GAUSSIAN,
            ["--delay", "9s", "--time-field", "at"],
            "labels came after their observation was given up, and river's loop waits for every",
        ),
    ],
    ids=["drift", "promotion", "horizon"],
)
def test_what_rivers_loop_cannot_do_is_refused(
    records, file, config, verified, more, model, asked, message
) -> None:
    """One line, exit code 2, and no result."""
    code, found, err = verified(config(more, model=model), file(records), "--label", "y", *asked)

    assert (code, found) == (2, {})
    *progress, last = err.splitlines()
    assert last.startswith("headwater: --verify: ")
    assert message in last
    assert not any("headwater" in line for line in progress)


def test_labels_after_their_observation_was_forgotten_are_refused(
    records, file, config, verified
) -> None:
    """Also if as many observations are dead letters, whose labels would wait in vain."""
    for n, record in enumerate(records):
        if n < 60:
            record["https"] = "bad"
        if n < 290:
            del record["y"]
    more = '[labels]\nhorizon = "1s"\n[features]\nhttps = "numeric"\nip_in_url = "numeric"\n'
    late = ("--label", "y", "--delay", "9s", "--time-field", "at")

    code, found, err = verified(config(more), file(records), *late)

    assert (code, found) == (2, {})
    assert "--verify: 10 labels came after their observation was given up, and river's" in err


def test_records_that_repeat_an_id_are_refused(records, file, config, verified) -> None:
    """An id is learned once, and river's loop has no ids."""
    records[80]["id"] = records[81]["id"] = "p7"

    code, _, err = verified(config(), file(records), "--label", "y")

    assert code == 2
    assert "--verify: 2 observations repeat an id, and river's loop has no ids; give each" in err


def test_labels_that_were_held_back_are_refused(records, file, config, verified) -> None:
    """The breaker stops learning, river's loop does not."""
    for record in records[:150]:
        record["https"] = "bad"
    more = '[features]\nhttps = "numeric"\nip_in_url = "numeric"\n'

    code, _, err = verified(
        config(more + "[output]\nmax_dead_letter_ratio = 0.1\n"), file(records), "--label", "y"
    )

    assert code == 2
    assert "were not learned, because [output] max_dead_letter_ratio held them back" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--journal", "--verify"], "remove FILE and its options, --compare and"),
        (["--journal", "--report", "a.html"], "--report draws how the scores of a file change"),
        (["CONFIG", "FILE", "--compare", "--verify"], "river's loop runs one model; remove"),
    ],
)
def test_wrong_use_is_one_line(records, file, config, capsys, arguments, message) -> None:
    """Exit code 2, nothing on stdout."""
    names = {"FILE": file(records), "CONFIG": config()}

    assert main(["replay", config(), *(names.get(a, a) for a in arguments)]) == 2
    out, err = capsys.readouterr()
    assert (out, message in err, err.count("\n")) == ("", True, 1)


def test_without_verify_nothing_is_said(records, file, config, capsys) -> None:
    """Results of earlier releases stay the same."""
    assert main(["replay", config(), file(records), "--label", "y", "--json"]) == 0

    assert "verification" not in json.loads(capsys.readouterr().out)

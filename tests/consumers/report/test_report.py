"""`headwater replay --report` and `--compare`: one page with everything, and who is better."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from consumers.cli import main
from consumers.report import charts
from consumers.report import page as pages
from tests.consumers.feeds import phishing

Said = pytest.CaptureFixture[str]
CONFIG = """
name = "pages"
input = {{ transport = "sqlite:log.db", observations = "seen", labels = "told" }}
model = {{ type = "{model}" }}
http = {{ enabled = false }}
"""


@pytest.fixture
def made(tmp_path: Path):
    """A function that writes configurations by name, and the file of records."""
    rows = (json.dumps({"id": str(i), **x, "y": y}) for i, (x, y) in enumerate(phishing(300)))
    (tmp_path / "pages.jsonl").write_text("\n".join(rows))

    def write(name: str, model: str = "GaussianNB", more: str = "") -> str:
        path = tmp_path / f"{name}.toml"
        path.write_text(CONFIG.format(model=model) + more)
        return str(path)

    return write


class Document(HTMLParser):
    """The tags of a page, its ids, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.refers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.refers += [str(v) for k, v in attrs if k in ("src", "href", "xlink:href", "srcset")]


def replayed(tmp_path: Path, *arguments: str) -> str:
    """The report of a replay."""
    path = tmp_path / "report.html"
    options = ["--label", "y", "--delay", "20", "--report", str(path)]
    assert main(["replay", *arguments, str(tmp_path / "pages.jsonl"), *options]) == 0
    return path.read_text()


def test_report_needs_nothing_but_itself(made, tmp_path: Path, capsys: Said) -> None:
    """No script, no address but those of its own charts; every id is there once."""
    page = replayed(tmp_path, made("one"))
    document = Document(page)

    assert not {"script", "link", "iframe", "img", "object"} & set(document.tags)
    assert all(to.startswith("#") and to[1:] in document.ids for to in document.refers)
    assert not re.findall(r"url\((?!#)|@import", page)
    assert len(document.ids) == len(set(document.ids))
    assert document.tags.count("svg") >= 2


def test_report_shows_the_numbers_that_are_told(made, tmp_path: Path, capsys: Said) -> None:
    """Those of --json: scores, classes, confusion, what became of the records."""
    config = made("one")
    page = replayed(tmp_path, config)
    capsys.readouterr()
    file = str(tmp_path / "pages.jsonl")
    assert main(["replay", config, file, "--label", "y", "--delay", "20", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert f"{100 * told['scores']['all']['accuracy']:.2f} %" in page
    assert f"{100 * told['classes'][0]['f1']:.2f} %" in page
    for score in ("kappa", "brier", "calibration_error"):
        assert f">{told['scores']['all'][score]:.4f}</td>" in page
    for row in told["confusion"]["counts"]:
        for count in row:
            assert f">{count:,}</td>" in page
    assert told["fingerprint"] in page
    assert "currentColor" in page, "the ink of the charts is that of the page"
    assert "#010203" not in page


def test_report_without_matplotlib_has_all_but_the_charts(
    made, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain install writes it; the page and one line of stderr say what its charts need."""
    whole = replayed(tmp_path, "--compare", made("one"), made("two", "GaussianBayes"))
    assert "no charts" not in capsys.readouterr().err
    monkeypatch.setattr("consumers.report.page.find_spec", lambda _: None)
    monkeypatch.setattr("consumers.commands.meter.SILENT_SECONDS", 0)
    page = replayed(tmp_path, "--compare", made("one"), made("two", "GaussianBayes"))

    assert "svg" not in Document(page).tags
    assert Document(page).tags.count("table") == Document(whole).tags.count("table") > 3
    assert "has no charts: matplotlib is not installed; pip install matplotlib" in page
    said = "report.html will have no charts: matplotlib is not installed; pip install matplotlib"
    err = capsys.readouterr().err
    assert err.count(said) == 1
    assert err.index(said) < err.index("records replayed"), "before the replay, not after it"


def test_worst_keys_are_in_the_tables_and_on_the_page(made, tmp_path: Path, capsys: Said) -> None:
    """As text, however a key looks; not for another model."""
    keys = ("<b>bold</b>", "fine")
    rows = (
        {
            "id": str(i),
            "k": keys[i // 2 % 2],
            "a": i % 2,
            "y": "pq"[(i // (4 if i // 2 % 2 == 0 else 1)) % 2],
        }
        for i in range(400)
    )
    (tmp_path / "pages.jsonl").write_text("\n".join(map(json.dumps, rows)))
    config = made("one", "PerKeyNB", 'features = {k = "categorical", a = "numeric"}')
    text = Path(config).read_text().replace('"PerKeyNB"', '"PerKeyNB", per = "k"')
    Path(config).write_text(text)
    page = replayed(tmp_path, config)
    shown = capsys.readouterr().out

    assert re.search("<th scope=row>&lt;b&gt;bold&lt;/b&gt;</th><td>1[89]\\d</td>", page)
    assert "2 of 2 values of &#x27;k&#x27; have enough scored records" in page
    assert re.search(r"^ *<b>bold</b> +1[89]\d ", shown, re.MULTILINE)
    assert "Worst keys" not in replayed(
        tmp_path, made("two", "MixedNB", 'features = {k = "categorical", a = "numeric"}')
    )


def test_labels_are_spelled_as_in_json_wherever_they_are_shown(
    made, tmp_path: Path, capsys: Said
) -> None:
    """A truth value is true or false, on the terminal and on the page."""
    rows = (json.dumps({"id": str(i), "a": i % 2, "y": i % 2 == 0}) for i in range(50))
    (tmp_path / "pages.jsonl").write_text("\n".join(rows))
    page = replayed(tmp_path, made("one"), "--details")
    shown = capsys.readouterr().out

    assert "<th scope=row>true</th>" in page
    assert re.search(r"^\W*true\W+\d", shown, re.MULTILINE)
    assert not re.search(">(True|False)<", page)
    assert not re.search("True|False", shown)


def test_replay_without_a_score_shows_no_table_of_dashes(
    made, tmp_path: Path, capsys: Said
) -> None:
    """One line says that there is no score."""
    (tmp_path / "pages.jsonl").write_text('{"id": "1", "a": 1, "y": "x"}')
    replayed(tmp_path, made("one"))
    shown = capsys.readouterr().out

    assert "scores: none, because no prediction has a label yet" in shown
    assert "kappa" not in shown


def test_report_of_the_same_replay_is_the_same_page(made, tmp_path: Path, capsys: Said) -> None:
    """Nothing in it depends on when it was made."""
    config = made("one")

    assert replayed(tmp_path, config) == replayed(tmp_path, config)


def test_report_shows_what_came_from_records_as_text(made, tmp_path: Path, capsys: Said) -> None:
    """A label cannot write markup."""
    config = made("one")
    evil = "<script>alert(1)</script>"
    rows = (json.dumps({"id": str(i), "a": i % 2, "y": [evil, "b"][i % 2]}) for i in range(50))
    (tmp_path / "pages.jsonl").write_text("\n".join([*rows, json.dumps({"a": 1e999, "y": evil})]))
    page = replayed(tmp_path, config)

    assert "script" not in Document(page).tags
    assert "&lt;script&gt;alert(1)" in page


def test_report_where_nothing_was_scored_is_a_page_too(made, tmp_path: Path, capsys: Said) -> None:
    """One record has nothing to be drawn."""
    config = made("one")
    (tmp_path / "pages.jsonl").write_text('{"id": "1", "a": 1, "y": "x"}')
    page = replayed(tmp_path, config)

    assert "svg" not in Document(page).tags
    assert "<h1>pages</h1>" in page


def test_calibration_is_drawn_where_it_is_told() -> None:
    """A bin without predictions is left out."""
    some = {"weight": 10, "confidence": 0.75, "accuracy": 0.6}
    none = {"weight": 0, "confidence": None, "accuracy": None}
    drawn = charts.calibration([none, some])

    assert Document(drawn).tags[0] == "svg"
    assert "confidence of the prediction" in drawn


@pytest.mark.parametrize(
    ("action", "words"),
    [(None, "rejecting"), ("spam", "&#x27;spam&#x27;")],
    ids=["reject", "label"],
)
def test_decisions_are_beside_those_of_always_the_same_one(action: object, words: str) -> None:
    """To reject is one of them."""
    best = {"action": action, "risk": 1.5}
    made = {"actions": {"spam": 1234}, "rejected": 5, "risk": 0.25, "best_constant": best}

    shown = pages._decision(made)

    assert f"Mean loss 0.2500; always {words}: 1.5000." in shown
    assert "1,234" in shown


def test_page_is_bounded_in_names_and_classes() -> None:
    """Whatever comes from records."""
    many = pages.MOST_CLASSES + 1
    confusion = {"counts": [[1] * many] * many, "labels": list(range(many))}

    assert pages._confusion(confusion).count("<td ") == pages.MOST_CLASSES**2
    assert len(pages._text("x" * 1000)) == pages.LONGEST
    assert pages._text("x" * pages.LONGEST) == "x" * pages.LONGEST


def test_compare_tells_who_is_better_of_several_models(made, tmp_path: Path, capsys: Said) -> None:
    """Each by the name of its file, with the scores it has alone."""
    paths = [made("naive"), made("joint", "GaussianBayes"), made("bins", "CategoricalNB")]
    tail = [str(tmp_path / "pages.jsonl"), "--label", "y", "--delay", "20", "--json"]
    alone = []
    for path in paths:
        assert main(["replay", path, *tail]) == 0
        alone.append(json.loads(capsys.readouterr().out)["scores"]["all"]["accuracy"])
    assert main(["replay", "--compare", *paths, *tail]) == 0
    told = json.loads(capsys.readouterr().out)["challengers"]

    assert [model["name"] for model in told] == ["naive", "joint", "bins"]
    assert [model["accuracy"] for model in told] == alone
    assert told[0]["against"] is None
    for other in told[1:]:
        assert other["against"]["compared"] == 280
        assert other["against"]["lower"] < other["against"]["difference"]


def test_report_of_a_comparison_draws_the_evidence(made, tmp_path: Path, capsys: Said) -> None:
    """Curves of each model by the name of its file."""
    page = replayed(tmp_path, "--compare", made("naive"), made("bins", "CategoricalNB"))

    assert "Evidence for a challenger" in page
    assert Document(page).tags.count("svg") >= 5
    assert re.search(r"<text[^>]*>bins</text>", page)
    row = re.search(r"<th scope=row>bins</th>(.*?)</tr>", page)
    assert row
    assert len(re.findall("<td>", row[1])) == 7
    assert "undecided: too few records are compared" in row[1]


@pytest.mark.parametrize(
    ("names", "more", "words"),
    [
        (["a"], "", "--compare expects two configurations"),
        (["a", "b"], "[labels]\nhorizon = '1d'\n", "differ in more than [model]: labels.horizon"),
        (["a"] * 11, "", "--compare takes 9 configurations at most"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    made, tmp_path: Path, capsys: Said, names, more, words
) -> None:
    """And ends with 2."""
    paths = [made("a"), *[made("b", more=more)] * (len(names) - 1)]
    assert main(["replay", "--compare", *paths, str(tmp_path / "pages.jsonl")]) == 2

    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("to", "words"),
    [("report.pdf", "ending in .html"), ("missing/report.html", "no directory")],
)
def test_report_that_cannot_be_written_is_told_before_any_work(
    made, tmp_path: Path, capsys: Said, to: str, words: str
) -> None:
    """One line, and nothing was replayed."""
    command = ["replay", made("one"), str(tmp_path / "pages.jsonl"), "--label", "y"]
    assert main([*command, "--report", str(tmp_path / to)]) == 2

    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_two_files_without_compare_are_one_line(made, tmp_path: Path, capsys: Said) -> None:
    """It says which option takes several configurations."""
    file = str(tmp_path / "pages.jsonl")
    assert main(["replay", made("one"), file, file]) == 2

    assert "--compare with several configurations" in capsys.readouterr().err

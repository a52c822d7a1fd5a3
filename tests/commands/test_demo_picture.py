"""What the demo draws and sums up, from views that are made up."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from consumers.demo.picture import DemoPoint, Picture, curve
from consumers.demo.summary import outcome
from consumers.demo.turns import PredictedRecord, Turn, TurnSearch
from consumers.demo.view import confusion, frame
from consumers.shard.views import ShardView
from stream.evaluate.quality import QualityView, Scores


def said(number: int, label: str, p: float, learned: int = 0) -> PredictedRecord:
    """A prediction of "a" or "b" that gave "a" the probability p."""
    return PredictedRecord(
        number, {"x": 1.0, "colour": "red"}, label, (("a", p), ("b", 1 - p)), learned
    )


def picture(classes: tuple[str, ...] = ("a", "b"), n: int = 1200) -> Picture:
    """A demo after n labels, of any classes."""
    scores = Scores(float(n), 0.875, 0.31, {"majority": 0.5, "no_change": 0.45})
    confusion = np.full((len(classes), len(classes)), 7, dtype=np.int64)
    quality = QualityView(
        classes, confusion, dict.fromkeys(("all", "last_1000", "fading"), scores), 3
    )
    view = ShardView("shop", "GaussianNB", 0, n + 50, n + 50, n, {}, {}, {}, 50, 0, quality)
    points = tuple(DemoPoint(i, 0.5 + 0.375 * i / n, 0.5, 0.45) for i in range(20, n + 1, 20))
    turn = Turn("a", said(12, "b", 0.1), said(1100, "a", 0.97, 900), 0.0, 2)
    return Picture("shop", "GaussianNB", "bought", 5000, 250.0, 4.2, points, view, turn)


def refusing(shown: Picture, dead: int) -> Picture:
    """The same demo with so many dead letters."""
    assert shown.view is not None
    return replace(shown, view=replace(shown.view, dead_letters={"infinite": dead}))


def drawn(renderable: object, width: int) -> list[str]:
    """What a console without colours prints."""
    console = Console(file=StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(renderable, end="")
    return capture.get().rstrip("\n").split("\n")


@pytest.mark.parametrize("classes", [("a", "b"), tuple(f"class {i} of 40" for i in range(40))])
@pytest.mark.parametrize("width", [10, 30, 50, 66, 80, 100, 200])
@pytest.mark.parametrize("height", [8, 15, 23, 31, 60])
@pytest.mark.parametrize("dead", [0, 1234])
def test_the_view_fits_into_any_terminal(width: int, height: int, classes, dead: int) -> None:
    """No line wraps and the top never scrolls away."""
    lines = drawn(frame(refusing(picture(classes), dead), width, height), width)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_the_view_at_80_by_24_has_everything_that_was_promised() -> None:
    """Rate, accuracies, baselines, confusion, pending labels, the two records."""
    text = "\n".join(drawn(frame(picture(), 80, 23), 80))

    for words in (
        "1,250 of 5,000 observations",
        "250 records/s",
        "50 labels pending",
        "model 87.5 %",
        "majority 50.0 %",
        "no-change 45.0 %",
        "confusion",
        "log loss",
        "#12      wrong  P(a) █····",
        "predicted b (a 10 %, b 90 %)",
        "#1,100   right  P(a) █████████▊  97 %",
        "both bought = a; the same 2 fields, 1,088 records later",
    ):
        assert words in text


def test_the_view_is_there_before_the_first_record() -> None:
    """Nothing known yet is shown as such, at the same size."""
    empty = Picture("shop", "GaussianNB", "bought", 5000)

    lines = drawn(frame(empty, 80, 23), 80)

    assert "0 of 5,000 observations" in lines[0]
    assert len(lines) == len(drawn(frame(picture(), 80, 23), 80))


def test_many_classes_are_folded_into_the_largest_and_the_rest() -> None:
    """The confusion stays readable, and no count is lost."""
    classes = tuple(f"class {i} of 40" for i in range(40))

    view = picture(classes).view
    assert view is not None
    head, *rows = drawn(confusion(view.quality, "kind", 60, 6), 60)
    counts = [[int(n.replace(",", "")) for n in row[15:].split()] for row in rows]

    assert (head.split()[0], head.split()[-1]) == ("kind", "rest")
    assert rows[-1].startswith("rest ")
    assert [len(row) for row in counts] == [6] * 6
    assert sum(map(sum, counts)) == 7 * 40 * 40


def test_lines_are_told_apart_without_colour() -> None:
    """Solid, dashed and dotted: their share of the dots is all, half and a quarter."""
    rows: dict[str, int] = {}
    for level in ("model", "majority", "no_change"):
        flat = {"model": 0.2, "majority": 0.2, "no_change": 0.2} | {level: 0.8}
        rows[level] = _dots(
            curve([DemoPoint(1, **flat), DemoPoint(1000, **flat)], 1000, 60, 9)[2].plain
        )

    assert rows["model"] >= 118
    assert rows["majority"] == pytest.approx(60, abs=3)
    assert rows["no_change"] == pytest.approx(30, abs=3)


def _dots(braille: str) -> int:
    return sum((ord(character) - 0x2800).bit_count() for character in braille)


def test_the_right_record_was_asked_after_the_label_of_the_wrong_one_was_learned() -> None:
    """What the model could not know yet does not count as learned from it."""
    turns = TurnSearch()
    for i in range(3):
        turns.observe(str(i), {"x": 1.0})
    turns.predict("0", "b", (("b", 0.9), ("a", 0.1)), learned=0)
    turns.predict("1", "a", (("a", 0.6), ("b", 0.4)), learned=0)
    turns.answer("0", "a")
    turns.answer("1", "a")
    before = turns.best
    turns.predict("2", "a", (("a", 0.8), ("b", 0.2)), learned=1)
    turns.answer("2", "a")

    assert before is None
    assert turns.best is not None
    assert (turns.best.wrong.number, turns.best.right.number) == (1, 3)
    assert turns.best.gain == pytest.approx(0.7)


def test_the_most_similar_right_record_is_shown() -> None:
    """A later record that is closer replaces one that is further."""
    turns = TurnSearch()
    found: list[int] = []
    steps = [("0", 0.0, "b", 0), ("1", 10.0, "a", 1), ("2", 2.0, "a", 1), ("3", 5.0, "a", 1)]
    for id_, x, label, learned in steps:
        turns.observe(id_, {"x": x})
        turns.predict(id_, label, (("a", 0.5), ("b", 0.5)), learned)
        turns.answer(id_, "a")
        found.append(turns.best.right.number if turns.best else 0)

    assert found == [0, 2, 3, 3]


def test_a_class_never_heard_of_is_no_example_of_a_mistake() -> None:
    """It could not have been said."""
    turns = TurnSearch()
    for id_, label, learned in (("0", "b", 1), ("1", "a", 2)):
        turns.observe(id_, {"x": 1.0})
        turns.predict(id_, label, ((label, 1.0),), learned)
        turns.answer(id_, "a")

    assert turns.best is None


def test_a_demo_that_was_stopped_at_once_says_so() -> None:
    """Without a commit there is no number to tell."""
    assert list(outcome(Picture("a", "b", "c", 10), seen=False)) == [
        "stopped before the first record"
    ]


def test_refused_records_are_counted_in_the_summary() -> None:
    """A feed with bad records says so, by reason."""
    whole, bad = picture(), refusing(picture(), 3)

    assert "dead letters: 3 infinite" in list(outcome(bad, seen=True))
    assert not any("dead letters" in line for line in outcome(whole, seen=True))


def test_dead_letters_are_counted_in_the_live_view() -> None:
    """Only when there are any."""
    one, many, none = (
        "\n".join(drawn(frame(refusing(picture(), n), 80, 23), 80)) for n in (1, 1234, 0)
    )

    assert "50 labels pending   1 dead letter\n" in one
    assert "50 labels pending   1,234 dead letters" in many
    assert "dead letter" not in none


@pytest.mark.parametrize(("near", "alike"), [(0, False), (1, True), (2, True)])
def test_records_are_called_alike_only_if_half_of_their_fields_are(near: int, alike: bool) -> None:
    """Else the panel and the summary promise no more than the class they share."""
    whole = picture()
    assert whole.turn is not None
    turned = replace(whole, turn=replace(whole.turn, distance=0.3, near=near))

    shown = "\n".join(drawn(frame(turned, 80, 23), 80))
    said_ = list(outcome(turned, seen=False))

    assert ("╭─ wrong, then right ─" in shown) == ("wrong, then right" in said_) == alike
    assert ("╭─ wrong, later right: same class ─" in shown) != alike
    assert (f"similar: {near} of 2 fields equal or close" in shown) == alike
    assert ("similar" in " ".join(said_)) == alike


def test_fields_that_are_equal_or_close_are_counted() -> None:
    """A tenth of a number's range is close; another word is not."""
    turns = TurnSearch()
    rows = [
        {"x": 0.0, "z": 0.0, "c": "red"},
        {"x": 100.0, "z": 1.0, "c": "red"},
        {"x": 9.0, "z": 0.9, "c": "red"},
    ]
    for i, (row, label) in enumerate(zip(rows, ("b", "b", "a"), strict=True)):
        turns.observe(str(i), row)
        turns.predict(str(i), label, (("a", 0.5), ("b", 0.5)), i)
        turns.answer(str(i), "b" if i == 1 else "a")

    assert turns.best is not None
    assert (turns.best.near, turns.best.fields, turns.best.alike) == (2, 3, True)

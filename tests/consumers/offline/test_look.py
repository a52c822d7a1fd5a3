"""The models that `init` compares: their scores, and which one is chosen."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest

from consumers.config.auto import Defaults, auto_of
from consumers.config.learner import ModelConfig
from consumers.config.propose import ModelChoice
from consumers.offline.look import LEAST, Arrivals, _chosen, compared, models
from consumers.shard.models import build
from stream.data.schema import Schema
from stream.evaluate import progressive
from stream.evaluate.guessing import ENOUGH
from stream.learner.base import Learner

NUMBERS = Schema.of(a="numeric", b="numeric")
DEFAULT = ModelChoice("GaussianNB", "two numbers")


def learner(kind: str) -> Learner:
    """The learner of a type, for two numbers."""
    return build(ModelConfig(type=kind), Defaults(auto=auto_of(NUMBERS)))


def ring(n: int, seed: int = 0) -> tuple[list[dict[str, Any]], list[bool]]:
    """Whether a point is near the middle: easy by its neighbours, and not by a line."""
    points = np.random.default_rng(seed).normal(size=(n, 2))
    labels = (points**2).sum(axis=1) < 1.4
    return [{"id": i, "a": a, "b": b} for i, (a, b) in enumerate(points.tolist())], labels.tolist()


def line(n: int, seed: int = 0) -> tuple[list[dict[str, Any]], list[bool]]:
    """A noisy side of a line; both numbers say the same, so naive Bayes is too sure."""
    x = np.random.default_rng(seed).normal(size=(n, 2))
    labels = (x[:, 0] + x[:, 1] > 0).tolist()
    return [{"id": i, "a": a, "b": 2 * a} for i, a in enumerate(x[:, 0].tolist())], labels


def test_scores_are_those_of_progressive_validation() -> None:
    """Of each model, with labels as late; the guesses too."""
    records, labels = ring(1500)
    dataset = [({"a": r["a"], "b": r["b"]}, y) for r, y in zip(records, labels, strict=True)]

    look = compared(records, NUMBERS, Arrivals(labels, 50), DEFAULT)

    assert look.records == 1500
    assert [each.model for each in look.scores] != models(NUMBERS, "GaussianNB")  # best first
    assert {each.model for each in look.scores} == set(models(NUMBERS, "GaussianNB"))
    for each in look.scores:
        *_, last = progressive(dataset, learner(each.model), delay=50)
        expected = last.scores["all"]
        assert (each.accuracy, each.log_loss) == (expected.accuracy, expected.log_loss)
        assert each.view.scores["all"].baselines == expected.baselines


def test_labels_of_a_topic_are_as_late_as_their_timestamps() -> None:
    """A label before its observation comes with it; a label after the last record comes too."""
    records, labels = ring(600)
    times = [1000 + 10 * i for i in range(600)]
    late = [(i * 37 % 3000) - 100 for i in range(600)]
    dataset = [
        ({"a": r["a"], "b": r["b"], "t": t, "late": max(0, d)}, y)
        for r, t, d, y in zip(records, times, late, labels, strict=True)
    ]

    look = compared(records, NUMBERS, Arrivals(labels, late, times), DEFAULT)

    *_, last = progressive(dataset, learner("GaussianNB"), moment="t", delay="late")
    [ours] = (each for each in look.scores if each.model == "GaussianNB")
    assert ours.log_loss == last.scores["all"].log_loss


def test_model_that_was_asked_for_stays_and_the_better_one_is_named() -> None:
    """One with parameters was asked for."""
    wanted = ModelChoice("GaussianNB", "as asked", parameters={"var_smoothing": 0.01})
    look = compared(*of(line(3000)), wanted)

    assert look.choice.model == "GaussianNB"
    assert look.choice.parameters == {"var_smoothing": 0.01}
    assert look.choice.why.startswith("as asked; LogisticRegression is better: log loss 0.")


def test_clearly_better_model_is_chosen() -> None:
    """With its log loss and that of the default as the reason."""
    look = compared(*of(line(3000)), ModelChoice("GaussianNB", "two numbers"))

    best = look.scores[0]
    [ours] = (each for each in look.scores if each.model == "GaussianNB")
    assert look.choice.model == best.model != ours.model
    assert look.choice.why == (
        f"log loss {best.log_loss:.3f}, accuracy {best.accuracy:.1%}; those of GaussianNB are "
        f"{ours.log_loss:.3f} and {ours.accuracy:.1%}"
    )
    assert look.worse == ()


def of(drawn: tuple[list[dict[str, Any]], list[bool]], late: int = 0) -> tuple[Any, ...]:
    """Records, schema and labels as `compared` takes them."""
    return drawn[0], NUMBERS, Arrivals(drawn[1], late)


def test_default_stays_where_no_model_is_clearly_better() -> None:
    """Labels by chance: no model is better than another, and none than guessing."""
    records, _ = ring(3000)
    labels = (np.random.default_rng(5).random(3000) < 0.4).tolist()

    look = compared(*of((records, labels)), ModelChoice("auto", "why"))

    assert look.choice.model == "auto"
    assert look.choice.why == "why; no other model is clearly better"


def test_lower_log_loss_alone_is_not_better() -> None:
    """A model that is right less often is not chosen, whatever its probabilities."""
    records, labels = ring(4000)
    flipped = np.random.default_rng(9).random(4000) < 0.2
    noisy = [y != bool(other) for y, other in zip(labels, flipped, strict=True)]
    default = ModelChoice("KNNClassifier", "why")

    scores = {each.model: each for each in compared(*of((records, noisy)), default).scores}
    other, ours = scores["LogisticRegression"], scores["KNNClassifier"]

    assert other.log_loss < ours.log_loss - 0.1
    assert other.accuracy < ours.accuracy
    assert _chosen([other, ours], default, in_order=True).model == "KNNClassifier"
    assert _chosen([ours, other], ModelChoice(other.model, ""), in_order=True).model == other.model


def test_few_or_sorted_labels_choose_no_other_model() -> None:
    """The table is shown; the default stays, and the reason says so."""
    few = compared(*of(line(ENOUGH)), DEFAULT)
    ordered = compared(*of(line(3000)), DEFAULT, in_order=False)

    assert few.scores[0].model != few.choice.model == "GaussianNB"
    assert few.choice.why == (
        "two numbers; 999 scored predictions are too few to choose another model by their scores"
    )
    assert ordered.choice.why == (
        "two numbers; the labels look sorted, so the scores choose no other model"
    )


@pytest.mark.parametrize("labels", [[None] * 300, [True] * 300, [True, False] * (LEAST // 2)])
def test_without_labels_of_two_classes_there_is_no_look(labels: list[Any]) -> None:
    """And with too few of them."""
    records, _ = ring(len(labels))

    assert compared(*of((records, labels)), DEFAULT) is None


def test_records_that_the_service_rejects_are_not_used() -> None:
    """They would be dead letters; the others have the scores they have without them."""
    records, labels = ring(600)
    bad = [{"a": "two"}, {"b": float("inf")}]

    look = compared([*bad, *records], NUMBERS, Arrivals([True, False, *labels], 9), DEFAULT)
    without = compared(*of((records, labels), 9), DEFAULT)

    assert look.records == 600
    assert [each.log_loss for each in look.scores] == [each.log_loss for each in without.scores]


def test_value_that_does_not_fit_is_missing() -> None:
    """As in the configuration that is written; texts for missing are those of the user."""
    records, labels = ring(600)
    bad = [{**records[0], "a": "two"}, {**records[1], "b": "-9"}, *records[2:]]
    gaps = [{**records[0], "a": None}, {**records[1], "b": None}, *records[2:]]

    look = compared(bad, NUMBERS, Arrivals(labels, 9), DEFAULT, missing=["-9"])
    same = compared(gaps, NUMBERS, Arrivals(labels, 9), DEFAULT)

    assert look.records == 600
    assert [each.log_loss for each in look.scores] == [each.log_loss for each in same.scores]


def test_model_that_is_worse_than_guessing_is_found() -> None:
    """Labels in runs that no field explains."""
    records, _ = ring(3000)
    labels = [i // 100 % 2 == 0 for i in range(3000)]

    look = compared(records, NUMBERS, Arrivals(labels), DEFAULT, in_order=False)

    assert [guess.baseline for guess in look.worse] == ["no_change"]


@pytest.mark.parametrize("late", [0, 1, 50])
def test_predictions_before_the_first_label_of_their_class_are_explained(late: int) -> None:
    """In a sorted table with late labels they make most of the log loss, whatever the model."""
    records, _ = ring(400)
    labels = [*["a"] * 200, *["b"] * 200]

    look = compared(records, NUMBERS, Arrivals(labels, late), DEFAULT, in_order=False)
    mixed = compared(records, NUMBERS, Arrivals(["a", "b"] * 200, 0), DEFAULT)

    assert look.unseen == max(late, 1)
    told = "predictions came before the first label of their class, and count 36 each in every log "
    assert any(told in line for line in look.lines()) == (late == 50)
    assert mixed.unseen == 1
    assert not any(told in line for line in mixed.lines())


def test_labels_of_too_many_classes_are_counted_and_scored_by_no_model() -> None:
    """All rows of the table are of the same records."""
    records, _ = ring(3000)
    labels = [str(i * 7919 % 2000) for i in range(3000)]

    look = compared(records, NUMBERS, Arrivals(labels), ModelChoice("auto", "two numbers"))

    assert len({each.view.scores["all"].scored for each in look.scores}) == 1
    known = set(look.scores[0].view.classes)
    assert look.rejected == sum(y not in known for y in labels) > 0
    assert look.unseen < look.scores[0].view.scores["all"].scored
    named = {each.model for each in look.scores} | set(look.left_out)
    assert named == set(models(NUMBERS, "auto"))
    assert any(
        f"{look.rejected:,} labels of 3,000 were rejected, because auto has room for {len(known):,}"
        in line
        for line in look.lines()
    )


def test_label_of_another_kind_is_no_class_without_room() -> None:
    """It is rejected for its kind, by every model."""
    records, labels = line(400)

    look = compared(records, NUMBERS, Arrivals([*labels[:-5], *["x"] * 5]), DEFAULT)

    assert look.rejected == 0
    assert not any("room for" in told for told in look.lines())


def test_guess_that_is_right_more_often_is_told_even_if_it_may_be_chance() -> None:
    """Where labels are too few for a verdict."""
    records, _ = ring(300)
    labels = [i % 100 < 93 for i in range(300)]

    look = compared(records, NUMBERS, Arrivals(labels), DEFAULT)

    assert not look.worse
    *_, last = look.lines()
    assert last.startswith("guessing by the last label is right in 98.3%")
    assert last.endswith("predictions, which are few")


def test_texts_are_compared_by_models_that_read_them() -> None:
    """Their kernels are compiled for texts before the time is taken."""
    rng = np.random.default_rng(3)
    labels = (rng.random(400) < 0.5).tolist()
    records = [
        {"body": f"the {'prize' if y else 'bridge'} number {i}"} for i, y in enumerate(labels)
    ]
    schema = Schema.of(body="text")

    look = compared(records, schema, Arrivals(labels), ModelChoice("MultinomialNB", "text"))

    assert {each.model for each in look.scores} == set(models(schema, "MultinomialNB"))
    assert all(each.accuracy > 0.95 for each in look.scores)


def test_table_has_models_guesses_and_times() -> None:
    """Aligned, the best first, the chosen one marked; the times are those of the clock."""
    ticks = count()
    records, labels = line(1500)

    look = compared(records, NUMBERS, Arrivals(labels), DEFAULT, clock=lambda: next(ticks) * 0.0075)

    head, *rows = look.lines()
    assert head.split() == ["model", "accuracy", "log", "loss", "µs", "a", "record"]
    assert [row.split()[0] for row in rows[:-2]] == [each.model for each in look.scores]
    assert [row.split()[3] for row in rows[:-2]] == ["10.0"] * len(look.scores)  # two blocks
    assert [row.endswith("chosen") for row in rows].index(True) == 0
    assert rows[-2].startswith("guess: label shares ")
    assert rows[-1].startswith("guess: last label ")


def test_progress_counts_every_model() -> None:
    """In records, to the end, without a step back."""
    seen: list[tuple[int, int]] = []

    compared(*of(ring(1500)), DEFAULT, progress=lambda done, total: seen.append((done, total)))

    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] == 1500


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["numeric"], ["auto", "GaussianNB", "KNNClassifier", "LogisticRegression"]),
        (["text"], ["auto", "MultinomialNB", "MixedNB", "LogisticRegression", "spam"]),
        (["categorical"], ["auto", "MixedNB", "KNNClassifier", "LogisticRegression"]),
        (["numeric", "text"], ["auto", "MixedNB", "LogisticRegression", "spam"]),
    ],
)
def test_models_use_every_field(kinds: list[Any], expected: list[str]) -> None:
    """One that would leave a field out is not compared, unless it is the default."""
    schema = Schema.of(**{f"f{i}": kind for i, kind in enumerate(kinds)})

    assert models(schema, "auto") == expected
    assert models(schema, "PoissonNB") == [*expected, "PoissonNB"]

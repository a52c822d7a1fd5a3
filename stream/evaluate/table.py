"""The table of scores: one entry has everything about a score.

Rule: metrics, the live page, `/status`, the report, the tables of `replay`, the Grafana panels and
docs/quality.md are made from this table. None of them has a score of its own. To add a score,
compute it in `stream.evaluate.scores` and add an entry here
(docs/decisions/scores.md#a-score-is-one-entry-of-one-table).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from stream.decision.overall import RISK_SCORES, RiskScoreSpec
from stream.evaluate.scores import Agreement, Scores

__all__ = [
    "KINDS",
    "SCORES",
    "BaselineSpec",
    "Column",
    "Of",
    "ScoreSpec",
    "arranged",
    "columns",
    "formulas",
]

Value = Callable[[Scores], float | None]
Of = Literal["classes", "probabilities"]
KINDS: tuple[Of, ...] = ("classes", "probabilities")
Unit = Literal["share", "area", "number"]


@dataclass(frozen=True, slots=True)
class BaselineSpec:
    """A score of the baselines.

    Parameters
    ----------
    values
        Baseline to its score.
    metric, help
        Name and help text in Prometheus. The empty name means: no series.
    legend
        Its name in a Grafana panel.
    last_only
        The series exists only for the window of the last records.
    """

    values: Callable[[Scores], Mapping[str, float | None]]
    metric: str = ""
    help: str = ""
    legend: str = ""
    last_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSpec:
    """One score.

    Parameters
    ----------
    id
        Its key in JSON.
    title
        Its name on the live page and in docs/quality.md.
    of
        What it scores: the predicted classes or the probabilities.
    unit
        A share of records, an area between 0 and 1, or a plain number.
    value
        Function that reads it; None if it is undefined.
    metric, help
        Name and help text in Prometheus.
    formula, limits
        How it is computed, and what it does not show, for docs/quality.md.
    panel, legend
        The Grafana panel that shows it, a key of `PANELS` in docker/grafana/make_dashboards.py,
        and its name there.
    baselines
        The same score of the baselines; None if the comparison has no meaning.
    column, long
        A short and a long name; the title if empty.
    labels
        Labels of the metric in addition to shard, model and window, with their values.
    first
        `Scores` has it as a field, and tables show it first.
    last_only
        It needs single predictions, so it exists only for the window of the last records.
    """

    id: str
    title: str
    of: Of
    unit: Unit
    value: Value
    metric: str
    help: str
    formula: str
    limits: str
    panel: str
    legend: str
    baselines: BaselineSpec | None = None
    column: str = ""
    long: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    first: bool = False
    last_only: bool = False


class Column(NamedTuple):
    """A score of the model or of the prior, as a column of a table with one row for each window."""

    id: str
    title: str
    unit: Unit
    value: Value


def _agreed(read: Callable[[Agreement], float]) -> Value:
    """A value of the confusion matrix, if there is one."""
    return lambda s: None if s.agreement is None else read(s.agreement)


def _baselines_agreed(
    read: Callable[[Agreement], float],
) -> Callable[[Scores], Mapping[str, float | None]]:
    """The same for the baselines."""
    return lambda s: {name: None if a is None else read(a) for name, a in s.beside.items()}


def _balanced(found: Agreement) -> float:
    return found.balanced_accuracy


def _macro_f1(found: Agreement) -> float:
    return found.f1["macro"]


def _kappa(found: Agreement) -> float:
    return found.kappa


def _mcc(found: Agreement) -> float:
    return found.mcc


SCORES: tuple[ScoreSpec, ...] = (
    ScoreSpec(
        id="accuracy",
        title="accuracy",
        of="classes",
        unit="share",
        value=lambda s: s.accuracy,
        metric="headwater_accuracy_ratio",
        help="Share of right predictions, each made before its record was learned.",
        formula="Σ n<sub>cc</sub> / n",
        limits="does not show whether it is good: if 99 % of the records are of one class, "
        "always predicting it has accuracy 99 %",
        panel="accuracy",
        legend="",
        baselines=BaselineSpec(
            lambda s: s.baselines,
            "headwater_baseline_accuracy_ratio",
            "Share of right predictions of a baseline on the records that the model was scored on.",
        ),
        first=True,
    ),
    ScoreSpec(
        id="balanced_accuracy",
        title="balanced accuracy",
        column="balanced",
        of="classes",
        unit="share",
        value=_agreed(_balanced),
        metric="headwater_balanced_accuracy_ratio",
        help="Mean recall over the true classes.",
        formula="mean of n<sub>cc</sub> / t<sub>c</sub> over the true classes",
        limits="a class with three records has the same weight as one with a million",
        panel="balanced",
        legend="balanced",
        baselines=BaselineSpec(
            _baselines_agreed(_balanced),
            "headwater_baseline_balanced_accuracy_ratio",
            "Balanced accuracy of a baseline over the last records.",
            "balanced",
            last_only=True,
        ),
    ),
    ScoreSpec(
        id="macro_f1",
        title="macro F1",
        long="F1, mean over classes",
        of="classes",
        unit="share",
        value=_agreed(_macro_f1),
        metric="headwater_f1_ratio",
        help="F1 of the classes: their mean (macro). The micro average is the accuracy.",
        formula="F1 of a class: 2 n<sub>cc</sub> / (s<sub>c</sub> + t<sub>c</sub>). Macro: mean "
        "over the classes. Weighted: weighted by t<sub>c</sub>. Micro: equal to the accuracy",
        limits="macro: as for balanced accuracy",
        panel="balanced",
        legend="F1 {{average}}",
        baselines=BaselineSpec(
            _baselines_agreed(_macro_f1),
            "headwater_baseline_f1_ratio",
            "F1 of a baseline over the last records, mean over the classes.",
            "F1",
            last_only=True,
        ),
        labels=(("average", "macro"),),
    ),
    ScoreSpec(
        id="kappa",
        title="Cohen's kappa",
        column="kappa",
        of="classes",
        unit="number",
        value=_agreed(_kappa),
        metric="headwater_cohen_kappa",
        help="Agreement with the true classes beyond chance, 1 at best.",
        formula="(p − e) / (1 − e), with accuracy p and e = Σ t<sub>c</sub> s<sub>c</sub> / n²",
        limits="the chance level e depends on the model's own predictions",
        panel="agreement",
        legend="kappa",
        baselines=BaselineSpec(_baselines_agreed(_kappa)),
    ),
    ScoreSpec(
        id="kappa_m",
        title="kappa-M",
        long="kappa-M, against majority",
        of="classes",
        unit="number",
        value=lambda s: s.kappa_m,
        metric="headwater_majority_kappa",
        help="Share of the majority baseline's mistakes that the model avoids; below 0 it is "
        "worse.",
        formula="(p − m) / (1 − m), with m the accuracy of *majority*",
        limits="undefined while majority is always right",
        panel="agreement",
        legend="kappa over majority",
    ),
    ScoreSpec(
        id="kappa_t",
        title="kappa-T",
        long="kappa-T, against no-change",
        of="classes",
        unit="number",
        value=lambda s: s.kappa_t,
        metric="headwater_no_change_kappa",
        help="Share of the no-change baseline's mistakes that the model avoids; below 0 it is "
        "worse.",
        formula="(p − l) / (1 − l), with l the accuracy of *no-change*",
        limits="with delayed labels, no-change knows only the labels that have arrived",
        panel="agreement",
        legend="kappa over no-change",
    ),
    ScoreSpec(
        id="mcc",
        title="Matthews' correlation",
        column="MCC",
        long="Matthews correlation",
        of="classes",
        unit="number",
        value=_agreed(_mcc),
        metric="headwater_matthews_correlation",
        help="Correlation of predicted and true classes, -1 to 1.",
        formula="Gorodkin's R<sub>K</sub>; φ for two classes",
        limits="0 also where it is undefined (only one true or one predicted class)",
        panel="agreement",
        legend="Matthews",
        baselines=BaselineSpec(_baselines_agreed(_mcc)),
    ),
    ScoreSpec(
        id="log_loss",
        title="log loss",
        of="probabilities",
        unit="number",
        value=lambda s: s.log_loss,
        metric="headwater_log_loss",
        help="Mean of -log(probability the model gave to the true class).",
        formula="mean of −ln p<sub>true</sub>, in nats, with p at least 2⁻⁵², so one record "
        "costs at most 36 nats",
        limits="a few records can dominate it: one costs up to 36 nats, a fair coin 0.7",
        panel="log loss",
        legend="",
        baselines=BaselineSpec(
            lambda s: {"prior": s.prior_log_loss},
            "headwater_baseline_log_loss",
            "Log loss of the prior: the shares of the labels learned before each prediction.",
        ),
        first=True,
    ),
    ScoreSpec(
        id="balanced_log_loss",
        title="balanced log loss",
        column="bal. log loss",
        long="log loss, mean over classes",
        of="probabilities",
        unit="number",
        value=lambda s: s.balanced_log_loss,
        metric="headwater_balanced_log_loss",
        help="Log loss over the last records in which every class has the same weight.",
        formula="mean over the true classes of the mean of −ln p<sub>true</sub> over the last "
        "records of the class",
        limits="a class with a single record has the same weight as the others; if the model had "
        "not learned it yet, that record costs 36 nats divided by the number of classes",
        panel="log loss",
        legend="balanced",
        baselines=BaselineSpec(
            lambda s: {"prior": s.prior_balanced_log_loss},
            "headwater_baseline_balanced_log_loss",
            "Balanced log loss of the prior over the last records.",
            "balanced",
            last_only=True,
        ),
        last_only=True,
    ),
    ScoreSpec(
        id="brier",
        title="Brier score",
        column="Brier",
        of="probabilities",
        unit="number",
        value=lambda s: s.brier,
        metric="headwater_brier_score",
        help="Mean squared error of the probabilities, summed over the classes: 0 at best, 2 at "
        "worst.",
        formula="mean of Σ<sub>c</sub> (p<sub>c</sub> − [c is true])², from 0 to 2; with two "
        "classes, twice scikit-learn's default",
        limits="mixes ranking and calibration",
        panel="calibration",
        legend="Brier",
        baselines=BaselineSpec(
            lambda s: {"prior": s.prior_brier},
            "headwater_baseline_brier_score",
            "Brier score of the prior.",
            "Brier",
        ),
    ),
    ScoreSpec(
        id="calibration_error",
        title="calibration error",
        column="calib. error",
        long="expected calibration error",
        of="probabilities",
        unit="share",
        value=lambda s: s.calibration_error,
        metric="headwater_calibration_error_ratio",
        help="Difference of confidence and accuracy, mean over ten bins of confidence.",
        formula="ten bins of confidence (the probability of the predicted class): Σ weight · "
        "\\|accuracy − confidence\\|",
        limits="0 for a model that always predicts the prior; too high in a small window",
        panel="calibration",
        legend="calibration error",
    ),
    ScoreSpec(
        id="roc_auc",
        title="ROC AUC",
        long="ROC AUC, mean over classes",
        of="probabilities",
        unit="area",
        value=lambda s: s.roc_auc,
        metric="headwater_roc_auc_ratio",
        help="Area under the ROC curve of each class against the rest, mean over the classes.",
        formula="the probability that a record of the class gets a higher probability than a "
        "record of another class, ties counting half; mean over the classes",
        limits="says nothing about calibration; too optimistic for rare classes",
        panel="areas",
        legend="ROC",
        last_only=True,
    ),
    ScoreSpec(
        id="pr_auc",
        title="PR AUC",
        long="average precision, mean over classes",
        of="probabilities",
        unit="area",
        value=lambda s: s.pr_auc,
        metric="headwater_pr_auc_ratio",
        help="Average precision of each class against the rest, mean over the classes.",
        formula="average precision, without interpolation; mean over the classes",
        limits="compare it with the share of the class, which is its value for a random model",
        panel="areas",
        legend="precision and recall",
        last_only=True,
    ),
)


def arranged(*first: str) -> tuple[ScoreSpec, ...]:
    """The table with these ids first. The others follow in the order of the table.

    Examples
    --------
    >>> [score.id for score in arranged("brier", "kappa")][:3]
    ['brier', 'kappa', 'accuracy']
    """
    place = {id_: n for n, id_ in enumerate(first)}
    return tuple(sorted(SCORES, key=lambda score: place.get(score.id, len(place))))


def columns(of: Of) -> tuple[Column, ...]:
    """The scores of classes or of probabilities, without those that every table shows first.

    Scores of the prior are next to those of the model. Scores of the model only come last.

    Examples
    --------
    >>> [column.id for column in columns("probabilities") if "brier" in column.id]
    ['brier', 'prior_brier']
    """
    here = [score for score in SCORES if score.of == of]
    if of == "classes":
        return tuple(_column(score) for score in here if not score.first)
    beside = [score for score in here if score.baselines]
    pairs = [(_column(score), _prior(score)) for score in beside if not score.first]
    return (
        *(column for pair in pairs for column in pair),
        *(_prior(score) for score in beside if score.first),
        *(_column(score) for score in here if not score.baselines),
    )


def _column(score: ScoreSpec) -> Column:
    return Column(score.id, score.column or score.title, score.unit, score.value)


def _prior(score: ScoreSpec) -> Column:
    found = score.baselines
    assert found is not None  # noqa: S101  asked for those that have one
    return Column(
        f"prior_{score.id}",
        f"prior's {score.column or score.title}",
        score.unit,
        lambda s: found.values(s)["prior"],
    )


def formulas(page: str) -> str:
    """The text of docs/quality.md with its tables of scores regenerated.

    Examples
    --------
    >>> made = formulas("<!-- scores of classes -->\\nold\\n<!-- end -->")
    >>> made.splitlines()[1]
    '| score | formula | limits |'
    """
    tables: list[tuple[str, Sequence[ScoreSpec | RiskScoreSpec]]]
    tables = [(of, [score for score in SCORES if score.of == of]) for of in KINDS]
    tables.append(("decisions", RISK_SCORES))
    for of, scores in tables:
        rows = (f"| {s.title} `{s.metric}` | {s.formula} | {s.limits} |" for s in scores)
        head = ("| score | formula | limits |", "|---|---|---|")
        begin, end = f"<!-- scores of {of} -->\n", "<!-- end -->"
        before, found, rest = page.partition(begin)
        if found:
            _, _, after = rest.partition(end)
            page = "".join((before, begin, "\n".join((*head, *rows)), "\n", end, after))
    return page

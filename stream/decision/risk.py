"""Bayesian decision theory: losses, conditional risk, the reject option; and probabilities of
classes where only a share of the labels comes.

Rule: sums run over the classes in the order they were learned, one at a time. So a decision has the
same bits alone and in a block, and before and after new classes come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.parameters import mapping, number, shown
from stream.data.schema import Label
from stream.data.state import State
from stream.errors import SchemaError
from stream.learner.predictions import Predictions

__all__ = [
    "BayesDecision",
    "Decision",
    "Decisions",
    "named",
    "of_classes",
]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for one record.

    Attributes
    ----------
    action
        The action of least conditional risk, as in `losses`; None if the record was rejected or no
        class was known.
    risk
        Expected loss of the action or of the rejection; None if there was no decision.
    risks
        Action to its conditional risk.
    rejected
        Whether the expected loss of rejecting was below that of every action.
    """

    action: Label | None
    risk: float | None
    risks: Mapping[Label, float]
    rejected: bool


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions for the predictions of a block, as columns.

    Attributes
    ----------
    actions
        The possible actions.
    chosen
        int64, (n,): index of the action; -1 for a rejection or no decision.
    risk
        float64, (n,): risk of the decision; 0 without a decision.
    risks
        float64, (n, len(actions)): conditional risks.
    rejected, decided
        bool, (n,): whether the record was rejected; whether there was a decision.
    """

    actions: list[Label]
    chosen: NDArray[np.int64]
    risk: Floats
    risks: Floats
    rejected: NDArray[np.bool_]
    decided: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.chosen.shape[0])

    def done(self) -> list[tuple[Label | None, float | None]]:
        """Action and risk of each; None without an action or a decision."""
        columns = (self.chosen.tolist(), self.risk.tolist(), self.decided.tolist())
        return [
            (None if a < 0 else self.actions[a], risk if decided else None)
            for a, risk, decided in zip(*columns, strict=True)
        ]


class BayesDecision:
    """The decision of least conditional risk R(a | x) = Σ λ(a | c) P(c | x).

    Parameters
    ----------
    losses
        Action to a mapping from label to λ(action | label): the loss of the action if that label is
        true. A gain is negative. An action need not be a class. Every action needs a loss for every
        label in `losses`; only the loss of an action for the label of the same name may be left out
        and is then 0. Labels, and actions named by labels, may be given as text ("true", "1").
        None: the classes are the actions, and every mistake costs 1.
    reject_loss
        The loss of rejecting (making no choice). A record is rejected if that is less than the
        least conditional risk. None: never.

    Raises
    ------
    SchemaError
        A loss is missing or is not a number within ±1e100.

    Notes
    -----
    O(actions · C) for each decision. If risks are equal, the first action in `losses` is chosen;
    without `losses`, the most probable class, and of equal ones the first learned. A class that is
    not in `losses` costs every action the largest loss (an action of that name: 0). So it does not
    affect the choice between actions, but favours rejecting. Source: Duda, Hart and Stork, Pattern
    Classification, chapter 2.2.

    Examples
    --------
    >>> from stream.decision import BayesDecision
    >>> rule = BayesDecision(
    ...     {"lend": {"pays": 0, "defaults": 10}, "refuse": {"pays": 1, "defaults": 0}},
    ...     reject_loss=0.5,
    ... )
    >>> rule.decide_one({"pays": 0.75, "defaults": 0.25})  # doctest: +NORMALIZE_WHITESPACE
    Decision(action=None, risk=0.5, risks={'lend': 2.5, 'refuse': 0.75}, rejected=True)
    >>> rule.decide_one({"pays": 0.25, "defaults": 0.75}).action
    'refuse'
    >>> BayesDecision().decide_one({"a": 0.25, "b": 0.75}).action
    'b'
    """

    def __init__(
        self,
        losses: Mapping[Label, Mapping[Label, float]] | None = None,
        reject_loss: float | None = None,
    ) -> None:
        self.losses = losses
        self.reject_loss = None if reject_loss is None else number("reject_loss", reject_loss)
        if losses is not None:
            rows = mapping("losses", losses, "action to a mapping from label to loss")
            for action, row in rows.items():
                mapping(f"losses[{action!r}]", row, "label to loss")
            if not losses or not any(losses.values()):
                raise SchemaError("losses must not be empty; leave them out for losses of 0 and 1")
            _check_losses(losses)

    def __repr__(self) -> str:
        return f"BayesDecision(losses={self.losses!r}, reject_loss={self.reject_loss!r})"

    def decide_one(self, proba: Mapping[Label, float]) -> Decision:
        """The decision for one posterior, as returned by `predict_proba_one`.

        Raises
        ------
        SchemaError
            It is not a distribution.
        """
        given = mapping("proba", proba, "label to probability")
        proba = {y: number(f"proba[{y!r}]", p, 0.0, 2.0) for y, p in given.items()}
        classes = list(proba)
        if proba and not (min(proba.values()) >= 0 and sum(proba.values()) <= 1 + 1e-6):
            raise SchemaError(f"expected probabilities that sum to 1, got {dict(proba)!r}")
        p = np.array([list(proba.values())], dtype=np.float64).reshape(1, len(classes))
        made = self.decide(classes, p, np.array([bool(classes)]))
        action, risk = made.done()[0]
        risks = dict(zip(made.actions, made.risks[0].tolist(), strict=True)) if classes else {}
        return Decision(action, risk, risks, bool(made.rejected[0]))

    def decide_many(self, predictions: Predictions) -> Decisions:
        """The decisions for the predictions of a block; equal to `decide_one` of each, bit for
        bit."""
        return self.decide(predictions.classes, predictions.proba, predictions.known > 0)

    def decide(self, classes: list[Label], proba: Floats, known: NDArray[np.bool_]) -> Decisions:
        """The decisions for posteriors.

        Parameters
        ----------
        classes
            The classes of the columns.
        proba
            float64, (n, len(classes)); 0 for a class that was not yet known.
        known
            bool, (n,): whether any class was known. If not, the only possible decision is to
            reject.
        """
        n = len(known)
        if self.losses is None:
            actions, risks = list(classes), 1.0 - proba
            # By probability, because risks 1 - p may be equal if probabilities differ in their last
            # bits.
            best = proba.argmax(axis=1) if classes else np.zeros(n, dtype=np.int64)
        else:
            actions, risks = list(self.losses), np.zeros((n, len(self.losses)))
            for c, label in enumerate(classes):
                risks += proba[:, c : c + 1] * self._column(label)
            best = risks.argmin(axis=1)
        chosen = np.where(known, best, -1).astype(np.int64)
        least = risks[np.arange(n), best] if actions else np.zeros(n)
        risk = np.where(known, least, 0.0)
        rejected = np.zeros(n, dtype=np.bool_)
        if self.reject_loss is not None:
            rejected = (risk > self.reject_loss) | ~known
            risk[rejected] = self.reject_loss
            chosen[rejected] = -1
        return Decisions(actions, chosen, risk, risks, rejected, known | rejected)

    def actions_for(self, label: Label, actions: Sequence[Label]) -> list[int]:
        """Which of these actions have the least loss if that label is true."""
        losses = [self._loss(action, label) for action in actions]
        return [i for i, loss in enumerate(losses) if loss == min(losses)]

    def realised(self, made: Decisions, true: Iterable[Label]) -> list[float | None]:
        """The loss of each decision, given the true classes: λ(action | true).

        `reject_loss` for a rejection, None if there was no decision.
        """
        out: list[float | None] = []
        columns = (made.chosen.tolist(), made.rejected.tolist(), true)
        for chosen, rejected, label in zip(*columns, strict=True):
            if rejected:
                out.append(self.reject_loss)
            elif chosen < 0:
                out.append(None)
            else:
                out.append(self._loss(made.actions[chosen], label))
        return out

    def loss(self, decision: Decision, true: Label) -> float | None:
        """The loss of a decision, given the true class; None if there was no decision."""
        if not isinstance(decision, Decision):
            raise SchemaError(f"expected a Decision, got {shown(decision)}")
        if decision.rejected:
            return self.reject_loss
        return None if decision.action is None else self._loss(decision.action, true)

    def constant(self, true: Mapping[str, int]) -> tuple[Label | None, float] | None:
        """The constant decision with the least mean loss, and that loss.

        Parameters
        ----------
        true
            True class, as text, to its count.

        Returns
        -------
        tuple or None
            The action (None for rejecting) and its loss; of equal ones the first. None if there are
            no true classes.

        Examples
        --------
        >>> BayesDecision({"lend": {"pays": 0, "defaults": 10}, "refuse": {"pays": 1,
        ...     "defaults": 0}}).constant({"pays": 90, "defaults": 10})
        ('refuse', 0.9)
        """
        n = sum(true.values())
        actions: list[Label] = list(true if self.losses is None else self.losses)
        costs: list[tuple[float, Label | None]] = [
            (sum(self._loss(a, label) * times for label, times in true.items()) / n, a)
            for a in (actions if n else ())
        ]
        if n and self.reject_loss is not None:
            costs.append((float(self.reject_loss), None))
        if not costs:
            return None
        risk, action = min(costs, key=lambda cost: cost[0])
        return action, risk

    def to_state(self) -> State:
        """The rule, to identify what a sum of losses belongs to."""
        rows = None if self.losses is None else [[named(a), _row(r)] for a, r in self._rows]
        return State({"losses": rows, "reject_loss": self.reject_loss})

    @property
    def _rows(self) -> list[tuple[Label, Mapping[Label, float]]]:
        return list((self.losses or {}).items())

    def _loss(self, action: Label, label: Label) -> float:
        if self.losses is None:
            return float(named(action) != named(label))
        return float(self._column(label)[list(self.losses).index(action)])

    def _column(self, label: Label) -> Floats:
        """λ(action | label) of each action."""
        name = named(label)
        if name not in self._table:
            strange = [0.0 if named(a) == name else self._worst for a, _ in self._rows]
            return np.array(strange)
        return self._table[name]

    @cached_property
    def _table(self) -> dict[str, Floats]:
        """The name of each label in `losses` to its column."""
        rows = [(named(a), _row(row)) for a, row in self._rows]
        labels = dict.fromkeys(label for _, row in rows for label in row)
        # A missing loss is λ(c | c) = 0; _check_losses rejects all others.
        return {c: np.array([row.get(c, 0.0) for _, row in rows]) for c in labels}

    @cached_property
    def _worst(self) -> float:
        return max(float(v) for _, row in self._rows for v in row.values())


def _check_losses(losses: Mapping[Label, Mapping[Label, float]]) -> None:
    """SchemaError if a loss is not a number, is missing, or is given twice."""
    _once("losses", losses)
    labels = {named(label): label for row in losses.values() for label in row}
    for action, row in losses.items():
        _once(f"losses[{action!r}]", row)
        for label, loss in row.items():
            number(f"losses[{action!r}][{label!r}]", loss)
        given = {named(label) for label in row} | {named(action)}
        for name, label in labels.items():
            if name not in given:
                first = [f"{named(c)} = {v:g}, " for c, v in list(row.items())[:3]]
                said_so = "".join(first) + ("…, " if len(row) > 3 else "")
                raise SchemaError(
                    f"losses[{action!r}] has no loss for the case that {label!r} is true; add "
                    f"it, for example losses.{named(action)} = {{{said_so}{name} = 0}}"
                )


def _once(where: str, names: Iterable[Label]) -> None:
    seen: set[str] = set()
    for name in names:
        if named(name) in seen:
            raise SchemaError(f"{where} has {named(name)!r} twice; keep one of them")
        seen.add(named(name))


def _row(row: Mapping[Label, float]) -> dict[str, float]:
    return {named(label): float(loss) for label, loss in row.items()}


def named(label: Label) -> str:
    """The text of a label in `losses`."""
    # Keys in a configuration are text, but labels may be integers or truth values.
    return str(label).lower() if isinstance(label, bool) else str(label)


def of_classes(proba: Floats, silent: int, frequency: float) -> Floats:
    """The probability of each class from the probability of each label.

    Users flag some of the spam, and silence says that the rest is ham. So a model learns how
    probable a flag is, and not how probable spam is. If each spam is flagged with the same
    probability c, whatever else it is, then P(spam | x) = P(flag | x) / c [1]_.

    Parameters
    ----------
    proba
        float64, (n, C): the probabilities of the labels. Each row sums to 1, or is 0.
    silent
        The class of what nobody labels.
    frequency
        c, the share of the records of every other class that is labelled, 0.001 to 1.

    Returns
    -------
    ndarray
        float64, (n, C). Probabilities of other classes are divided by c, and if that is more than 1
        together, by their sum. The silent class has the rest. A row of 0 stays 0.

    References
    ----------
    .. [1] Elkan and Noto: Learning Classifiers from Only Positive and Unlabeled Data, KDD 2008,
       lemma 1.

    Examples
    --------
    >>> of_classes(np.array([[0.9, 0.1], [0.4, 0.6]]), silent=0, frequency=0.5).tolist()
    [[0.8, 0.2], [0.0, 1.0]]
    """
    told = proba.any(axis=1)
    others = 1.0 - proba[:, silent]  # not a sum: its last bits would depend on the later classes
    by = np.maximum(frequency, others)
    out: Floats = proba / by[:, None]
    out[:, silent] = np.where(told, 1.0 - others / by, 0.0)
    return out

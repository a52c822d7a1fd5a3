"""Bayesian decision theory: losses, conditional risk, the reject option.

Rule: a sum runs over the classes in the order they were learned, one at a time, so that a decision
has the same bits alone and in a block, before and after further classes are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.parameters import mapping, number, shown
from stream.data.schema import Label
from stream.data.state import State
from stream.errors import SchemaError
from stream.learner.base import Predictions

__all__ = ["BayesDecision", "Decision", "Decisions", "named"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one record.

    Attributes
    ----------
    action
        The action of least conditional risk, as it was named in `losses`; None where it was
        rejected, or no class was known.
    risk
        Expected loss of doing so: of the action, or of rejecting; None where nothing was decided.
    risks
        Action to its conditional risk.
    rejected
        Whether abstaining cost less than every action.
    """

    action: Label | None
    risk: float | None
    risks: Mapping[Label, float]
    rejected: bool


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of a block's predictions, as columns.

    Attributes
    ----------
    actions
        The possible actions.
    chosen
        int64, (n,): index of the action; -1 where it was rejected or nothing was decided.
    risk
        float64, (n,): risk of what was done; 0 where nothing was decided.
    risks
        float64, (n, len(actions)): conditional risks.
    rejected, decided
        bool, (n,): whether it was rejected; whether anything was decided.
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
        """Action and risk of each, None where there is none."""
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
        Action to a mapping from label to λ(action | label): what the action costs where that is
        the true class; a gain is negative. An action need not be a class. Every action says what
        every label costs that any action names; only what is not said of the label the action is
        itself called by costs 0. A label, or an action called by one, may be given by its text
        ("true", "1"). None: the classes are the actions, and every mistake costs 1.
    reject_loss
        What abstaining costs: it is done where that is less than the least conditional risk.
        None: never.

    Raises
    ------
    SchemaError
        A loss that is missing or no number within ±1e100.

    Notes
    -----
    O(actions · C) a decision. Of equal risks the action that was named first is taken; without
    `losses` the most probable class, the earliest learned of equals. A class that `losses` names
    nowhere costs every action the largest loss there is (an action called by it: 0): no choice
    between actions hangs on it, and it speaks for rejecting. Source: Duda, Hart and Stork, Pattern
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
                raise SchemaError("losses name no action and label; leave them out for 0 and 1")
            _check_losses(losses)

    def __repr__(self) -> str:
        return f"BayesDecision(losses={self.losses!r}, reject_loss={self.reject_loss!r})"

    def decide_one(self, proba: Mapping[Label, float]) -> Decision:
        """The decision about one posterior, such as `predict_proba_one` gives.

        Raises
        ------
        SchemaError
            It is no distribution.
        """
        given = mapping("proba", proba, "label to probability")
        proba = {y: number(f"proba[{y!r}]", p, 0.0, 2.0) for y, p in given.items()}
        classes = list(proba)
        if proba and not (min(proba.values()) >= 0 and sum(proba.values()) <= 1 + 1e-6):
            raise SchemaError(f"expected probabilities, which sum to 1, got {dict(proba)!r}")
        p = np.array([list(proba.values())], dtype=np.float64).reshape(1, len(classes))
        made = self.decide(classes, p, np.array([bool(classes)]))
        action, risk = made.done()[0]
        risks = dict(zip(made.actions, made.risks[0].tolist(), strict=True)) if classes else {}
        return Decision(action, risk, risks, bool(made.rejected[0]))

    def decide_many(self, predictions: Predictions) -> Decisions:
        """The decisions about a block's predictions; `decide_one` of each, bit for bit."""
        return self.decide(predictions.classes, predictions.proba, predictions.known > 0)

    def decide(self, classes: list[Label], proba: Floats, known: NDArray[np.bool_]) -> Decisions:
        """The decisions about posteriors.

        Parameters
        ----------
        classes
            What the columns are.
        proba
            float64, (n, len(classes)); 0 for a class that was not known yet.
        known
            bool, (n,): whether any class was; nothing is decided where none was, unless by
            rejecting.
        """
        n = len(known)
        if self.losses is None:
            actions, risks = list(classes), 1.0 - proba
            # Not by the risks: two that differ in their last bits may be equal when taken from 1.
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

    def realised(self, made: Decisions, true: Iterable[Label]) -> list[float | None]:
        """What each decision cost, now that the true classes are known: λ(action | true).

        `reject_loss` where it was rejected, None where nothing was decided.
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
        """What the decision cost, now that the true class is known; None: nothing was decided."""
        if not isinstance(decision, Decision):
            raise SchemaError(f"expected a Decision, got {shown(decision)}")
        if decision.rejected:
            return self.reject_loss
        return None if decision.action is None else self._loss(decision.action, true)

    def constant(self, true: Mapping[str, int]) -> tuple[Label | None, float] | None:
        """The one thing that would have cost least if it had always been done, and its mean loss.

        Parameters
        ----------
        true
            True class, as text, to how often it came.

        Returns
        -------
        tuple or None
            The action, None for rejecting; of equals the first. None where nothing came.

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
        """The rule itself, so that a sum of losses says what it is a sum of."""
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
        # What is not said is λ(c | c) = 0: _check_losses has seen to it.
        return {c: np.array([row.get(c, 0.0) for _, row in rows]) for c in labels}

    @cached_property
    def _worst(self) -> float:
        return max(float(v) for _, row in self._rows for v in row.values())


def _check_losses(losses: Mapping[Label, Mapping[Label, float]]) -> None:
    """SchemaError for a loss that is no number, missing, or said twice."""
    _once("losses", losses)
    labels = {named(label): label for row in losses.values() for label in row}
    for action, row in losses.items():
        _once(f"losses[{action!r}]", row)
        for label, loss in row.items():
            number(f"losses[{action!r}][{label!r}]", loss)
        said = {named(label) for label in row} | {named(action)}
        for name, label in labels.items():
            if name not in said:
                first = [f"{named(c)} = {v:g}, " for c, v in list(row.items())[:3]]
                said_so = "".join(first) + ("…, " if len(row) > 3 else "")
                raise SchemaError(
                    f"losses[{action!r}] does not say what it costs where {label!r} is true; add "
                    f"it, for example losses.{named(action)} = {{{said_so}{name} = 0}}"
                )


def _once(where: str, names: Iterable[Label]) -> None:
    told: set[str] = set()
    for name in names:
        if named(name) in told:
            raise SchemaError(f"{where} names {named(name)!r} twice; keep one of them")
        told.add(named(name))


def _row(row: Mapping[Label, float]) -> dict[str, float]:
    return {named(label): float(loss) for label, loss in row.items()}


def named(label: Label) -> str:
    """The text a label is told by in `losses`."""
    # A configuration's keys are text, whatever the labels are.
    return str(label).lower() if isinstance(label, bool) else str(label)

"""Decide which labels are accepted: all of the same kind, and no class beyond the bound.

The first label that is learned fixes the kind.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream.data.schema import Dictionary, Label, plain_label
from stream.errors import InvalidRecordError, Reason

__all__ = ["AcceptedLabels"]


class AcceptedLabels:
    """The labels learned so far.

    Parameters
    ----------
    bound
        How many different labels there may be.

    Attributes
    ----------
    learned : Dictionary
        In the order in which they were first learned.
    promised : str, int, bool or None
        A label that has a place among the classes before it is learned, and so fixes the kind.

    Examples
    --------
    >>> labels = AcceptedLabels(bound=1)
    >>> labels.load(["a"], overflow=0)
    >>> labels.refusal("a"), labels.refusal(1), labels.refusal("b")
    (None, 'label_kind', 'max_classes')
    """

    def __init__(self, bound: int) -> None:
        self.learned = Dictionary(bound)
        self.promised: Label | None = None

    def knows(self, value: object) -> bool:
        """Whether it equals a learned label and has the same type. Such a label is never
        rejected."""
        values = self.learned.values
        return bool(values) and type(value) is type(values[0]) and value in self.learned.codes

    def accepted(self, value: object) -> Label | None:
        """The label if it may be learned, now or later; None if it is rejected."""
        if self.knows(value):
            return value  # type: ignore[return-value]
        return plain_label(value) if self.refusal(value) is None else None

    def refusal(self, value: object) -> Reason | None:
        """Why a label may never be learned; None if it may."""
        if self.knows(value):
            return None
        try:
            label = plain_label(value)
        except InvalidRecordError as error:
            return error.reason
        first = next(iter(self.learned), self.promised)
        if first is not None and type(label) is not type(first):
            return "label_kind"
        if label in self.learned or label == self.promised:
            return None
        kept = self.promised is not None and self.promised not in self.learned
        return "max_classes" if len(self.learned) + kept >= self.learned.bound else None

    def refuse(self, value: object) -> Reason:
        """Why a label is rejected. A label beyond the bound of classes is counted."""
        reason = self.refusal(value)
        assert reason is not None  # noqa: S101  the caller has checked that it is rejected
        if reason == "max_classes":
            self.learned.overflow += 1
        return reason

    def load(self, learned: Iterable[Label], overflow: int) -> None:
        """Replace the learned labels."""
        self.learned = Dictionary(self.learned.bound, learned)
        self.learned.overflow = overflow

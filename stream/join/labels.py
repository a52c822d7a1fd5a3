"""Which labels are accepted: of one kind, and no class beyond the bound.

The first accepted label fixes the kind. A label that is kept until its observation comes is
promised: it holds its place among the classes, so that it can be learned when the time comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stream.data.schema import Dictionary, Label, plain_label
from stream.errors import InvalidRecordError, Reason

__all__ = ["AcceptedLabels"]


class AcceptedLabels:
    """The labels learned so far and those promised.

    Parameters
    ----------
    bound
        How many different ones there may be.

    Attributes
    ----------
    learned : Dictionary
        In the order they were learned first.

    Examples
    --------
    >>> labels = AcceptedLabels(bound=1)
    >>> labels.promise("a")
    >>> labels.refusal("a"), labels.refusal(1), labels.refusal("b")
    (None, 'label_kind', 'max_classes')
    """

    def __init__(self, bound: int) -> None:
        self.learned = Dictionary(bound)
        self._promised: Counter[Label] = Counter()

    @property
    def promised(self) -> list[Label]:
        """Different labels that are promised, in the order they came."""
        return list(self._promised)

    def knows(self, value: object) -> bool:
        """Whether it is a label that was learned, of its very kind: then nothing refuses it."""
        values = self.learned.values
        return bool(values) and type(value) is type(values[0]) and value in self.learned.codes

    def promise(self, label: Label) -> None:
        """Hold a place for it."""
        self._promised[label] += 1

    def release(self, label: Label) -> None:
        """One promise of it less."""
        self._promised[label] -= 1
        if not self._promised[label]:
            del self._promised[label]

    def refusal(self, value: object) -> Reason | None:
        """Why a label may be learned neither now nor later; None where it may."""
        try:
            label = plain_label(value)
        except InvalidRecordError as error:
            return error.reason
        first = next(iter(self.learned), None)
        if first is None:
            first = next(iter(self._promised), None)
        if first is not None and type(label) is not type(first):
            return "label_kind"
        if label in self.learned or label in self._promised:
            return None
        unlearned = sum(1 for p in self._promised if p not in self.learned)
        if len(self.learned) + unlearned >= self.learned.bound:
            self.learned.overflow += 1
            return "max_classes"
        return None

    def load(self, learned: Iterable[Label], overflow: int) -> None:
        """Become these, with nothing promised."""
        self.learned = Dictionary(self.learned.bound, learned)
        self.learned.overflow = overflow
        self._promised = Counter()

    def load_promised(self, order: Iterable[Label], labels: Iterable[Label]) -> None:
        """Become `labels` promised, the first of each in this order."""
        counts = Counter(labels)
        self._promised = Counter({label: counts[label] for label in order})

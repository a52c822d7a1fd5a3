"""Says in one sentence that only one class was ever labelled, or scored, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumers.shard.views import ShardView
from stream.data.schema import Label

__all__ = ["ENOUGH", "only_one_class", "only_one_scored"]

ENOUGH = 100  # labels: an even rarer class comes by chance only after more of them


def only_one_class(view: ShardView) -> str | None:
    """That all labels so far are equal, and what to do; None if not, or if they are few.

    Nothing else shows it: if users report one class only, such as spam, every prediction is that
    class, every label agrees with it, and the accuracy is 100 %.
    """
    classes = view.quality.classes
    if len(classes) != 1 or view.learned < ENOUGH:
        return None
    return (
        f"only one class was ever labelled: all {view.learned:,} labels so far are {classes[0]!r}, "
        "so every prediction is that class; send labels of the other classes too, or set [labels] "
        "silence if users report one class only"
    )


def only_one_scored(
    labels: Mapping[str, int], classes: Sequence[Label], confusion: Sequence[Sequence[int]]
) -> str | None:
    """That silence was learned and every scored label is of one class; None if not.

    The accuracy is then the recall of this class, which is low although the model may be good, and
    always predicting this class has an accuracy of 100 %.

    Parameters
    ----------
    labels
        The number of labels by outcome.
    confusion
        Its rows are the true classes.

    Examples
    --------
    >>> only_one_scored({"silence": 9}, ["spam", "ham"], [[3, 1], [0, 0]])
    "only labels 'spam' are scored, because silence is not: the accuracy is their recall"
    >>> only_one_scored({"silence": 9}, ["spam", "ham"], [[3, 1], [0, 1]])
    """
    scored = [label for label, row in zip(classes, confusion, strict=False) if sum(row)]
    if len(scored) != 1 or not labels.get("silence"):
        return None
    return (
        f"only labels {scored[0]!r} are scored, because silence is not: the accuracy is their "
        "recall"
    )

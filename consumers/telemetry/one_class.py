"""Says in one sentence that only one class was ever labelled, and what to do."""

from __future__ import annotations

from consumers.shard.views import ShardView

__all__ = ["ENOUGH", "only_one_class"]

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

"""Names of classes as label values: bounded in number and length, and distinct."""

from __future__ import annotations

from collections.abc import Sequence

from stream.data.schema import Label

__all__ = ["MAX_CLASSES", "OTHER", "class_names"]

MAX_CLASSES = 20  # default number of classes with their own series
OTHER = "__other__"
MAX_NAME = 100  # characters of a class name: a label may be as long as a record


def class_names(labels: Sequence[Label], max_classes: int = MAX_CLASSES) -> list[str]:
    """Label values for the first `max_classes` classes learned; they keep them permanently.

    Booleans are `true` and `false`. A text that is too long is truncated. A text that is empty (no
    label for Prometheus) or already taken gets underscores in front.

    Examples
    --------
    >>> class_names([True, False])
    ['true', 'false']
    >>> class_names(["ham", "__other__", "spam"], max_classes=2)
    ['ham', '___other__']
    """
    names: dict[str, None] = {}
    for label in labels[:max_classes]:
        text = str(label).lower() if isinstance(label, bool) else str(label)
        # JSON can have half a surrogate pair, which no exposition format can encode.
        text = text[:MAX_NAME].encode("utf-8", "backslashreplace").decode()
        while text in names or text in ("", OTHER):
            text = "_" + text
        names[text] = None
    return list(names)

"""How a configuration names classes of river and the steps of a pipeline; river is not imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stream.data.parameters import shown
from stream.errors import SchemaError

__all__ = ["CLASS_PATH", "RIVER", "UNION", "check_steps"]

RIVER = "river:"  # before the name of a class of river
CLASS_PATH = r"[a-z_]\w*(?:\.[a-z_]\w*)*\.[A-Z]\w*"
UNION = "union"


def check_steps(steps: Any) -> None:
    """SchemaError unless `steps` has the form of a pipeline. Names are not looked up.

    Examples
    --------
    >>> check_steps(["preprocessing.StandardScaler", {"union": []}])
    Traceback (most recent call last):
    stream.errors.SchemaError: union of a pipeline: expected a list of steps, got []
    """
    if not isinstance(steps, list | tuple):
        raise SchemaError(f"expected a list of steps, got {shown(steps)}")
    for step in steps:
        if isinstance(step, list | tuple) and step:
            check_steps(step)
        elif isinstance(step, Mapping) and UNION in step:
            beside = step[UNION]
            if len(step) > 1:
                more = ", ".join(sorted(step.keys() - {UNION}))
                raise SchemaError(f"union of a pipeline: it has no argument {more}; remove it")
            if not isinstance(beside, list | tuple) or not beside:
                raise SchemaError(
                    f"union of a pipeline: expected a list of steps, got {shown(beside)}"
                )
            check_steps(beside)
        elif not _names_class(step.get("type") if isinstance(step, Mapping) else step):
            raise SchemaError(
                'expected transformers such as "preprocessing.StandardScaler", {type = '
                '"compose.Select", keys = ["age"]} or {union = [...]}, got ' + _short(step)
            )


def _names_class(name: Any) -> bool:
    pattern = f"(?:{RIVER})?{CLASS_PATH}"
    return isinstance(name, str) and re.fullmatch(pattern, name, re.ASCII) is not None


def _short(step: Any) -> str:
    text = repr(step)
    return text if len(text) <= 80 else f"{text[:77]}..."

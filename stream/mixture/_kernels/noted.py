"""Which rows have a noted prediction."""

from __future__ import annotations

from math import isnan
from typing import Any

from numpy import bool_, empty

from stream.kernel import kernel


@kernel
def remembered(op: Any, row: Any, memo: Any, out: Any) -> None:
    """out bool (m,): whether a step learns a row that was predicted before, now or earlier.

    op int8, row int64 (m,) as in `Block`; memo float64 (rows, any, any) as in `Rows`.
    """
    seen = empty(memo.shape[0], bool_)
    for r in range(memo.shape[0]):
        seen[r] = memo.shape[1] > 0 and not isnan(memo[r, 0, 0])
    for i in range(op.shape[0]):
        if op[i] == 0:
            seen[row[i]] = True
        out[i] = op[i] == 1 and seen[row[i]]

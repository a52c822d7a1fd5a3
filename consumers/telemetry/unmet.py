"""Says in one sentence that most labels find no observation that waits for them, and why."""

from __future__ import annotations

from consumers.shard.views import ShardView

__all__ = ["ENOUGH", "unmet_labels"]

ENOUGH = 100  # labels
GONE = {"expired": "[labels] horizon", "evicted": "[labels] max_pending"}


def unmet_labels(view: ShardView, least: int = ENOUGH) -> str | None:
    """That most labels find no observation, and what to do; None if not, or if they are few.

    Nothing else shows that labels are later than the horizon: the observations have expired, their
    ids are forgotten, and such a label waits for an observation that never comes.

    Parameters
    ----------
    least
        Fewer labels are not reported.
    """
    counts = view.labels
    unmet = view.early + sum(counts.get(k, 0) for k in ("early_expired", "early_evicted", "late"))
    labels = unmet + counts.get("joined", 0)
    if labels < least or 2 * unmet <= labels:
        return None
    found = f"{unmet:,} of {labels:,} labels have found no observation of their id"
    why, gone = max(((key, counts.get(key, 0)) for key in GONE), key=lambda pair: pair[1])
    if not gone:
        return (
            f"{found} in shard {view.shard}: do both topics use the same ids, and with several "
            "shards the same keys? `headwater check` compares them"
        )
    return (
        f"{found}, and {gone:,} observations {why} before their label came ({GONE[why]}): "
        "`headwater check` measures how late labels are, and `headwater relearn` learns them "
        f"with a larger {GONE[why].rpartition(' ')[2]}"
    )

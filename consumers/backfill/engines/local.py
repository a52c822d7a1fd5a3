"""Splits in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from consumers.backfill.fit import Fitted, Job, fit
from consumers.backfill.manifest import OffsetSpan, Split
from consumers.base.errors import ConfigError

__all__ = ["ATTEMPTS", "run"]

ATTEMPTS = 3  # times that processes die, without a split learned in between
MANY = 2_000_000  # records for which it pays to start processes, which takes seconds
ROW_BYTES = 100  # of a file whose rows are not known


def run(
    job: Job,
    splits: Sequence[Split],
    progress: Callable[[int], None],
    workers: int | None = None,
) -> Iterator[Fitted]:
    """Learn the splits in `workers` processes, in any order.

    By default one a core. Few records, one split, or one worker are learned in this process.

    Raises
    ------
    ConfigError
        The processes died again and again, as they do without memory.
    """
    if workers is None:
        workers = os.cpu_count() or 1 if _records(job, splits) >= MANY else 1
    workers = min(workers, len(splits))
    if workers <= 1:
        for split in splits:
            yield fit(job, split, progress)
        return
    left, failures = {split.number: split for split in splits}, 0
    while left:
        before = len(left)
        try:
            for fitted in _pooled(job, list(left.values()), workers):
                progress(fitted.counts["records"])
                del left[fitted.number]
                yield fitted
        except BrokenProcessPool:
            failures = 1 if len(left) < before else failures + 1
            if failures == ATTEMPTS:
                raise ConfigError(
                    f"a process that learned one of the splits {min(left)} to {max(left)} died "
                    f"{ATTEMPTS} times; if it had too little memory, give fewer --workers or a "
                    "smaller --split"
                ) from None


def _records(job: Job, splits: Sequence[Split]) -> int:
    """About how many records there are."""
    files, total = job.manifest.files, 0
    for span in (span for split in splits for span in split.spans):
        if isinstance(span, OffsetSpan):
            total += span.end - span.first
        else:
            total += span.rows if span.rows is not None else files[span.file].size // ROW_BYTES
    return total


def _pooled(job: Job, splits: Sequence[Split], workers: int) -> Iterator[Fitted]:
    # Not fork: threads of the compiler's and the log's libraries do not survive it.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting = [pool.submit(fit, job, split) for split in splits]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

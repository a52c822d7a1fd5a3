"""Write records of requests into the input topics, several requests with one append.

Rule: a request is answered only when the log has acknowledged its records. After a timeout it is
unknown whether they were written. A retry is a second record, which the join recognizes by its id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from consumers.base.records import Outgoing
from consumers.transports.protocol import Log

__all__ = ["Writer"]

Places = list[tuple[int, int]]


class Writer:
    """Appends records from one thread, with a log of its own.

    Parameters
    ----------
    opened
        Opens the log; called at the first append, and after an error.

    Examples
    --------
    >>> from consumers.transports import open_log
    >>> log = open_log("memory:writer-example")
    >>> log.create_topic("visits", 1)
    >>> writer = Writer(lambda: open_log("memory:writer-example"))
    >>> writer.append([Outgoing("visits", b"7", b"{}")]).result()
    [(0, 0)]
    >>> writer.close()
    """

    def __init__(self, opened: Callable[[], Log]) -> None:
        self._opened = opened
        self._log: Log | None = None
        self._pool = ThreadPoolExecutor(1, "headwater-writer")
        self._waiting: deque[tuple[Sequence[Outgoing], Future[Places]]] = deque()

    def append(self, records: Sequence[Outgoing]) -> Future[Places]:
        """A future of partition and offset of each record. The caller bounds how many wait."""
        written: Future[Places] = Future()
        self._waiting.append((records, written))
        self._pool.submit(self._write)
        return written

    def close(self) -> None:
        """Write what waits, and close the log."""
        self._pool.submit(self._discard)
        self._pool.shutdown()

    def _write(self) -> None:
        """Write all that waits; the calls after this one then find nothing."""
        taken = []
        while self._waiting:
            records, written = self._waiting.popleft()
            if written.set_running_or_notify_cancel():
                taken.append((records, written))
        if not taken:
            return
        try:
            if self._log is None:
                self._log = self._opened()
            places = iter(self._log.append([r for records, _ in taken for r in records]))
        except Exception as error:
            self._discard()
            for _, written in taken:
                written.set_exception(error)
            return
        for records, written in taken:
            written.set_result([next(places) for _ in records])

    def _discard(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            with suppress(Exception):
                log.close()

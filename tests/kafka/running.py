"""A service in a thread of the test, on a real broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from consumers.config import load
from consumers.service.runner import Runner
from consumers.transports import open_log
from tests.waiting import PATIENCE, until

__all__ = ["Running"]


class Running:
    """A runner in a thread."""

    def __init__(self, path: Path, *, drain: bool = False) -> None:
        settings = load(path)
        self.stop, self.error = threading.Event(), None
        self._log = open_log(settings.input.transport, kafka=settings.kafka)
        self.runner = Runner(settings, self._log, self.stop, drain=drain)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.runner.run()
        except BaseException as error:
            self.error = error

    @property
    def predicted(self) -> int:
        """Predictions made since it is known how many."""
        found = self.runner.registry.get_sample_value("headwater_predictions_total", {"shard": "0"})
        return int(found or 0)

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for it; not past the end of the run."""

        def come() -> object:
            assert self._thread.is_alive(), f"it has ended: {self.error}"
            return condition()

        until(come, f"it ({self.runner.health()})")

    def end(self) -> BaseException | None:
        """Wait for the end of the run; what it ended with."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self._log.close()
        return self.error

    def close(self) -> None:
        """Stop it and wait for its end."""
        self.stop.set()
        self.end()

"""What the process adds to the views of a shard, because it is not in the state."""

from __future__ import annotations

from dataclasses import replace

from consumers.codecs.account import NO_RECORDS, FieldAccount, SeenRecords
from consumers.shard.views import Committed, ShardView
from consumers.telemetry.advice import GuessMonitor

__all__ = ["AddedFacts"]


class AddedFacts:
    """The comparison with guessing, and the account of fields, both since the process started."""

    def __init__(self) -> None:
        self._guesses = GuessMonitor()
        self._account: FieldAccount | None = None

    @property
    def counted(self) -> SeenRecords:
        """How many records are in the account."""
        return NO_RECORDS if self._account is None else self._account.counted

    def committed(self, event: Committed) -> None:
        """Count the fields of a commit."""
        if event.fields is not None:
            if self._account is None:
                self._account = FieldAccount(event.fields.names)
            self._account.add(event.fields)

    def with_view(self, view: ShardView, *, now: bool = False) -> ShardView:
        """The view with all of it. `now`: models are compared also if there are few new labels."""
        view = self._guesses.looked(view, now=now)
        return view if self._account is None else replace(view, fields=self._account.view())

"""The strongest features of a spam filter, for the page.

Rule: the loop only copies its model. Evidence and names are computed in another thread, at most
once in `EVERY_SECONDS` for each shard, however many pages are open. Names are those of the
predictions that the page has shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from msgspec import Struct

from consumers.codecs.schemas import SchemaBook
from consumers.shard.answer import ModelCopy
from consumers.shard.views import PublishedPrediction
from consumers.web.status_feed import StatusFeed
from stream.decision.risk import named
from stream.linear.explained import StrongFeature, strongest, views_of
from stream.linear.spam import SpamScorer

__all__ = ["EVERY_SECONDS", "FeatureLists", "StrongestFeatures", "features_of"]

EVERY_SECONDS = 60.0  # between two computations for a shard
SOON_SECONDS = 5.0  # the same before there is a feature
OLDEST_SECONDS = 60.0  # age of a copy that was made for requests; an older one is not used
COPY_SECONDS = 5.0  # timeout of a copy of the model
SIDE = 12  # features for each label
LEAST = 2.0  # weight of the records of a feature; a rarer one is hardly evidence
LONGEST = 100  # characters of a name
VIEWS = views_of(("words", "fields"))


class FeatureLists(Struct, frozen=True):
    """Names and log-odds of the features with most evidence for each of two labels, as the model
    was after `learned` labels. `messages` is how many messages they are from."""

    label: str
    against: str
    learned: int
    messages: int
    towards: list[tuple[str, float]]
    opposed: list[tuple[str, float]]


def features_of(copy: ModelCopy, shown: Sequence[PublishedPrediction]) -> FeatureLists | None:
    """The strongest features of these messages; None if the model has none.

    A model has none if it is no `SpamScorer`, or has learned fewer than two labels.
    """
    model = copy.predictor() if isinstance(copy.learner, SpamScorer) else None
    if not isinstance(model, SpamScorer) or len(model.classes) < 2:
        return None
    by_name = {named(each): each for each in model.classes}
    likely = [copy.spec.budget.label if copy.spec.budget else None, "spam", *by_name]
    label = next(name for name in likely if name in by_name)
    against = next(name for name in by_name if name != label)
    kept = [each for each in shown if each.observation is not None]
    book = SchemaBook()
    for id_, schema in copy.schemas:
        book.add(id_, schema)
    decoder = copy.spec.decoder(book)
    seen = decoder.decode([each.key for each in kept], [each.observation for each in kept])
    seen.rows.blank(list(seen.rejected))
    pair = by_name[label], by_name[against]
    found = strongest(model, seen.rows, SIDE, *pair, views=VIEWS, least=LEAST)
    return FeatureLists(
        label[:LONGEST],
        against[:LONGEST],
        copy.learned,
        len(kept) - len(seen.rejected),
        [_named(each) for each in found.towards],
        [_named(each) for each in found.against],
    )


def _named(feature: StrongFeature) -> tuple[str, float]:
    return f"{feature.named.field}: {feature.named.written}"[:LONGEST], feature.log_odds


class StrongestFeatures:
    """The lists of one shard, and when they are computed again."""

    def __init__(self) -> None:
        self._newest: FeatureLists | None = None
        self._due = 0.0
        self._running = asyncio.Lock()

    async def lists(
        self, feed: StatusFeed, shown: Sequence[PublishedPrediction]
    ) -> FeatureLists | None:
        """The newest lists; None before the first.

        Raises
        ------
        TimeoutError
            The loop is busy or does not run.
        """
        async with self._running:
            if time.monotonic() < self._due:
                return self._newest
            self._due = time.monotonic() + SOON_SECONDS
            copy = feed.copies.newest
            if copy is None or feed.copies.age > OLDEST_SECONDS:
                copy = await self._copied(feed)
            if copy is None:  # too many questions wait
                return self._newest
            self._newest = found = await asyncio.to_thread(features_of, copy, shown)
            if found is not None and (found.towards or found.opposed):
                self._due = time.monotonic() + EVERY_SECONDS
            return found

    async def _copied(self, feed: StatusFeed) -> ModelCopy | None:
        waiting = feed.questions.copy()
        if waiting is None:
            return None
        async with asyncio.timeout(COPY_SECONDS):
            return await asyncio.wrap_future(waiting)

"""Series of the models that learn beside the champion, read from the committed view."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from consumers.shard.views import ShardView
from consumers.telemetry.families import family

__all__ = ["challengers"]


def challengers(view: ShardView) -> Iterator[Metric]:
    """Who is champion, and how the others stand against it."""
    shard = str(view.shard)
    of = {(shard, challenger.name): challenger for challenger in view.challengers}
    others = ((one, 0) for one in of)
    yield family("headwater_champion", [((shard, view.champion[0]), 1), *others])
    yield family("headwater_promotions_total", [((shard,), view.promotions)])
    against = {one: challenger.comparison for one, challenger in of.items()}
    yield family(
        "headwater_challenger_e_value", ((one, found.e_value) for one, found in against.items())
    )
    yield family(
        "headwater_challenger_brier_difference",
        (
            ((*one, bound), value)
            for one, found in against.items()
            for bound, value in zip(
                ("lower", "mean", "upper"),
                (found.lower, found.difference, found.upper),
                strict=True,
            )
        ),
    )
    yield family(
        "headwater_challenger_discordant_total",
        (
            ((*one, right), count)
            for one, found in against.items()
            for right, count in (("challenger", found.won), ("champion", found.lost))
        ),
    )
    yield family(
        "headwater_challenger_skipped_total",
        (((*one, what), n) for one, c in of.items() for what, n in c.skipped.items()),
    )

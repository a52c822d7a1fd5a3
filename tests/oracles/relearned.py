"""What a model has learned and must predict, from journal, inputs and published predictions.

Rule: written from the words of docs/howto/relearn.md, never imported by what it checks. Records are
JSON to it. One learner learns one record at a time, and what silence means is read from the
predictions as they were published, whichever model made them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.oracles.join import JoinTwin
from tests.oracles.merge import merge_heads

__all__ = ["Era", "Learned", "Logs", "eras", "history", "learned", "place_of"]

Place = tuple[str, int, int]  # topic, partition, offset


@dataclass
class Logs:
    """The topics of a service: inputs by place (timestamp and value), journal and predictions."""

    inputs: Mapping[Place, tuple[int, bytes | None]]
    labels: str  # topic
    journal: Sequence[bytes | None]
    published: Sequence[bytes | None]


@dataclass
class Learned:
    """A model at the end: it, its predictions by place, the outcomes of labels, its scores."""

    learner: Any
    predictions: dict[Place, dict[str, Any]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    scored: int = 0
    right: int = 0


class Era(NamedTuple):
    """A span in which the model had the same settings and nothing was taken back.

    `commits` is its history at the end of the span, `own` the numbers of those of the span.
    """

    settings: dict[str, Any]
    commits: list[dict[str, Any]]
    own: set[int]


def eras(values: Sequence[bytes | None]) -> list[Era]:
    """The spans of a journal. The last one has the model of the end."""
    first, *others = [json.loads(value or b"") for value in values]
    now = Era(first["identity"], [], set())
    after, done = {0: now}, list[Era]()  # the model as of each record
    for entry in others:
        if entry["kind"] in ("rollback", "relearn"):
            done.append(now)
            then = after[entry["to"]] if entry["kind"] == "rollback" else now
            now = Era(entry.get("identity", then.settings), then.commits, set())
        elif entry["kind"] == "commit":
            now = Era(now.settings, [*now.commits, entry], now.own | {entry["seq"]})
        after[entry["seq"]] = now
    return [*done, now]


def history(values: Sequence[bytes | None]) -> list[dict[str, Any]]:
    """The commits that no rollback has removed."""
    return eras(values)[-1].commits


def learned(
    logs: Logs,
    commits: Sequence[dict[str, Any]],
    learner: Any,
    silence: tuple[Any, int] | None = None,
    *,
    scored: bool = False,
    against: Callable[[dict[str, Any]], bool] = lambda prediction: False,
    corrections: bool = True,
) -> Learned:
    """Let `learner` live through the commits.

    `against` is whether a published prediction decided otherwise than silence asks.
    """
    said = {place_of(p): against(p) for p in map(json.loads, filter(None, logs.published))}
    out = Learned(learner)
    bounds = {"bound": 100_000, "horizon": 7 * 86_400_000, "max_classes": 256}
    twin = JoinTwin(**bounds, corrections=corrections, silence=silence)
    rows: list[tuple[Place, dict[str, Any]]] = []
    first: dict[int, Any] = {}  # what was predicted for an observation
    twin.decided = lambda number: said[rows[number][0]]
    done, silent = 0, 0
    for place, latest in in_order(logs, commits):
        time, value = logs.inputs[place]
        try:
            record = json.loads(value or b"")
        except ValueError:
            continue  # a dead letter
        time = max(time, twin.time) if time <= latest else twin.time
        if place[0] == logs.labels:
            twin.answer(0, record["id"], time, record["label"], 1.0)
        else:
            x = {k: v for k, v in record.items() if k != "id"}
            rows.append((place, x))
            twin.observe(0, record["id"], time, None, 1.0)
        quiet = twin.outcomes["silence"] - silent  # their steps come before that of the event
        silent += quiet
        for at, (what, number, label, _) in enumerate(twin.steps[done:]):
            there, x = rows[number]
            if what.startswith("predict"):
                out.predictions[there] = predicted(learner, x, silence)
                first.setdefault(number, out.predictions[there]["prediction"])
            if what == "unlearn":
                learner.unlearn_one(x, label)
            if what.endswith(" learn") or what == "learn":
                learner.learn_one(x, label)
                corrects = at > 0 and twin.steps[done + at - 1][0] == "unlearn"
                if first[number] is not None and not corrects and (scored or at >= quiet):
                    out.scored += 1
                    out.right += first[number] == label
        done = len(twin.steps)
    out.outcomes = +twin.outcomes
    return out


def in_order(logs: Logs, commits: Sequence[dict[str, Any]]) -> list[tuple[Place, int]]:
    """The records of the commits, each in the order of the merge, with the latest time believed."""
    out: list[tuple[Place, int]] = []
    for commit in commits:
        heads: dict[tuple[str, int], list[tuple[int, int]]] = {}
        latest = commit["now"] + 60_000
        for topic, number, start, end, *_ in commit["ranges"]:
            newest, head = -(1 << 62), heads.setdefault((topic, number), [])
            for at in range(start, end):
                if (topic, number, at) in logs.inputs:
                    time = logs.inputs[topic, number, at][0]
                    newest = max(newest, time) if time <= latest else newest
                    head.append((at, newest))
        out += [(place, latest) for place in merge_heads(heads, {logs.labels})]
    return out


def place_of(prediction: dict[str, Any]) -> Place:
    """The observation of a prediction."""
    at = prediction["position"]
    return at["topic"], at["partition"], at["offset"]


def predicted(learner: Any, x: dict[str, Any], silence: tuple[Any, int] | None) -> dict[str, Any]:
    """Label and probabilities; none before a label, and that of silence, was learned."""
    p = learner.predict_proba_one(x)
    if not p or (silence is not None and silence[0] not in p):
        return {"prediction": None, "probabilities": {}}
    return {"prediction": max(p, key=p.__getitem__), "probabilities": p}

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
from typing import Any

from tests.oracles.join import JoinTwin
from tests.oracles.merge import merge_heads

__all__ = ["Learned", "Logs", "history", "learned", "place_of"]

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


def history(values: Sequence[bytes | None]) -> list[dict[str, Any]]:
    """The commits that no rollback has removed."""
    after: dict[int, list[dict[str, Any]]] = {0: []}  # the history as of each record
    last = 0
    for entry in [json.loads(value or b"") for value in values][1:]:
        reset = entry["kind"] == "reset"
        after[entry["seq"]] = after[entry["to"]] if reset else [*after[last], entry]
        last = entry["seq"]
    return [entry for entry in after[last] if entry["kind"] == "batch"]


def learned(
    logs: Logs,
    commits: Sequence[dict[str, Any]],
    learner: Any,
    silence: tuple[Any, int],
    *,
    scored: bool,
    against: Callable[[dict[str, Any]], bool],
) -> Learned:
    """Let `learner` live through the commits.

    `against` is whether a published prediction decided otherwise than silence asks.
    """
    said = {place_of(p): against(p) for p in map(json.loads, filter(None, logs.published))}
    out = Learned(learner)
    twin = JoinTwin(
        bound=100_000, horizon=7 * 86_400_000, max_classes=256, corrections=True, silence=silence
    )
    rows: list[tuple[Place, dict[str, Any]]] = []
    first: dict[int, Any] = {}  # what was predicted for an observation
    twin.decided = lambda number: said[rows[number][0]]
    done, silent = 0, 0
    for place in in_order(logs, commits):
        time, value = logs.inputs[place]
        try:
            record = json.loads(value or b"")
        except ValueError:
            continue  # a dead letter
        time = max(time, twin.time)
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
                out.predictions[there] = predicted(learner, x, silence[0])
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


def in_order(logs: Logs, commits: Sequence[dict[str, Any]]) -> list[Place]:
    """The records of the commits, those of each in the order of the merge."""
    out: list[Place] = []
    for commit in commits:
        heads: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for topic, number, start, end, *_ in commit["ranges"]:
            there = [at for at in range(start, end) if (topic, number, at) in logs.inputs]
            heads[topic, number] = [(at, logs.inputs[topic, number, at][0]) for at in there]
        out += merge_heads(heads, {logs.labels})
    return out


def place_of(prediction: dict[str, Any]) -> Place:
    """The observation of a prediction."""
    at = prediction["position"]
    return at["topic"], at["partition"], at["offset"]


def predicted(learner: Any, x: dict[str, Any], silent: Any) -> dict[str, Any]:
    """Label and probabilities; none before the label of silence was learned."""
    p = learner.predict_proba_one(x)
    if silent not in p:
        return {"prediction": None, "probabilities": {}}
    return {"prediction": max(p, key=p.__getitem__), "probabilities": p}

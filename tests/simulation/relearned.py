"""The failing world, in which operators give the model new settings, and take them back.

`relearn` and `rollback` come between two lives of the service, or while it is in the midst of a
call and is fenced by them; between comparing and changing, the service may go on. A command fails
and dies as the service does. Some starts have settings that the model does not have, and must be
refused without a trace.

What must hold is said by an oracle that shares no code with the service: which settings the model
has, by the journal as JSON; what it has learned, one record at a time; and what each model must
have published in its time. With silence it learns from what was published, whoever published it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kafka import TopicPartition

from consumers.base.errors import ConfigError, FencedError, TransportError
from consumers.commands import relearn as relearns
from consumers.commands import rollback as rollbacks
from consumers.commands.past import Past
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.store import open_store
from consumers.timetravel.audit import audit
from consumers.timetravel.moment import moment, rebuild_at
from consumers.timetravel.relearn import learned_again
from consumers.timetravel.rollback import cut_from
from consumers.transports.kafka.log import KafkaLog
from stream import GaussianNB, MixedNB
from tests.consumers.feeds import NOW, config
from tests.oracles.relearned import Learned, Logs, eras, learned, place_of
from tests.simulation.weather import STORMY, DiedError
from tests.simulation.world import FEATURES, INPUTS, OPTIONS, TRANSPORT, World

__all__ = ["Relearning"]

CHANCES = {**STORMY, "operated": 0.3, "succeeded": 0.004}
MOST = 6  # commands of a seed
LIVES = 200
JOURNAL = TopicPartition("svc-journal", 0)
SILENCE = 'silence = false\nafter = "150ms"\nscore_silence = true\n'
CHALLENGER = '[[challenger]]\nname = "near"\ntype = "KNNClassifier"\nwindow = 20\n'
DRIFT = '[drift]\ndetectors = [{on = "error", type = "ADWIN"}]\n'
MODELS: dict[str, Callable[[], Any]] = {
    'type = "GaussianNB"': GaussianNB,
    'type = "GaussianNB"\nvar_smoothing = 0.5': lambda: GaussianNB(var_smoothing=0.5),
    'type = "MixedNB"': MixedNB,
}
Settings = tuple[str, bool]  # [model], and corrections


class Relearning(World):
    """One seed; the parameters are those of `World`."""

    def __init__(self, seed: int, directory: Path, **options: Any) -> None:
        super().__init__(seed, directory, chances=CHANCES, **options)
        random = self._random
        self._silent = random.random() < 0.5
        self._sections = random.choice(("", DRIFT, "" if self._silent else CHALLENGER))
        self._guarantee = random.choice(("exactly_once", "exactly_once", "at_least_once"))
        self._settings = self._first = self._used = self._drawn()
        self._commands = 0
        self.wrong: list[str] = []
        self._second_thoughts()

    def _drawn(self) -> Settings:
        return self._random.choice(list(MODELS)), self._silent or self._random.random() < 0.5

    def _second_thoughts(self) -> None:
        """Every fifth label is followed by another one."""
        again = []
        for i in range(0, 60, 5):
            for label in (True, False):
                value = json.dumps({"id": str(i), "label": label}).encode()
                again.append((NOW + 10_000 + i, b"again", value, ()))
        self._broker.produce(None, 0, TopicPartition("ans", 0), again)

    def run(self) -> Relearning:  # type: ignore[override]
        """Live through it to the end of the inputs."""
        with self._installed():
            for life in range(LIVES):
                if life > LIVES // 2:
                    self._weather.settled()
                before = self.told.commits
                try:
                    if self._weather.happens("operated"):
                        self._operate()
                    self._start_wrongly()
                    self._life(self._random.choice(self._hosts), self._random.randint(1, 6))
                except (DiedError, FencedError, TransportError):
                    self._damage()
                    continue
                except ConfigError:
                    # An operator was faster than a process that started over after a failure.
                    if self._used == self._present():
                        raise
                    continue
                if self.told.commits == before and not self._more_to_do():
                    break
            else:
                self.wrong.append(f"it did not come to an end in {LIVES} lives")
            self._weather.settled()
            self._settings = self._present()
            self._look()
            self._judge()
        shutil.rmtree(self._directory, ignore_errors=True)
        return self

    def _more_to_do(self) -> bool:
        return self._commands < MOST and self._random.random() < 0.6 and self._operate()

    def _life(self, host: Path, *args: Any, **options: Any) -> None:
        """With the settings that the model has."""
        self._settings = self._used = self._present()
        super()._life(host, *args, **options)

    def _start_wrongly(self) -> None:
        """Sometimes with others, which must be refused."""
        present, other = self._present(), self._drawn()
        if other == present or not self._values() or self._random.random() > 0.3:
            return
        before, self._settings = self._values(), other
        try:
            with self._weather.calm():
                super()._life(self._random.choice(self._hosts), 1)
            self.wrong.append("a start with other settings was not refused")
        except ConfigError as error:
            self.told.faults["refused"] += 1
            if "headwater relearn" not in str(error):
                self.wrong.append(f"a start with other settings said: {error}")
        if self._values() != before:
            self.wrong.append("a start with other settings wrote to the journal")

    def _succeed(self) -> None:
        """Who takes over in the midst of a call is another process, or an operator."""
        with self._weather.calm():
            if self._random.random() < 0.5:
                self._life(self._random.choice(self._hosts), self._random.randint(1, 5))
            else:
                self._operate()

    def _operate(self) -> bool:
        """One command; whether there was one."""
        if self._commands >= MOST or len(self._values()) < 2:
            return False
        self._commands += 1
        self._settings = self._present()
        log = KafkaLog(["simulated:9092"], OPTIONS)
        try:
            if self._random.random() < 0.3:
                self._roll_back(log)
            else:
                self._relearn(log)
        except (FencedError, TransportError):
            self.told.faults["command failed"] += 1
        except DiedError:
            self.told.faults["command died"] += 1
        finally:
            log.close()
        return True

    def _past(self, log: KafkaLog) -> Past:
        settings = self._config(self._random.choice(self._hosts))
        return Past(settings, log, sources(settings, log), open_store(settings), lambda *_: None)

    def _relearn(self, log: KafkaLog) -> None:
        present = self._settings
        wanted = self._drawn()
        if wanted == present:
            return
        self._settings = wanted
        of = self._past(log)
        both = learned_again(of.config, log, of.found, of.store)
        if self._random.random() < 0.5:  # the service runs meanwhile
            self._life(self._random.choice(self._hosts), self._random.randint(1, 4))
            self._settings = wanted
            self.told.faults["went on meanwhile"] += 1
        with patch.object(relearns, "time", self._clock):
            relearns._swap([of], [both], "better", [{}])
        self.told.faults["re-learned"] += 1

    def _roll_back(self, log: KafkaLog) -> None:
        of = self._past(log)
        offsets = [r.offset for r in self._broker.committed(JOURNAL)]
        to = moment(log, of.found.journal, str(self._random.choice(offsets) + 1))
        if not cut_from(log, of.found, to).entries:
            return
        live = rebuild_at(of.config, log, of.found, of.store, to, of.progress)
        with (
            patch.object(rollbacks, "time", self._clock),
            patch.object(rollbacks.typer, "echo", lambda *_, **__: None),
        ):
            rollbacks._cut(of, live, "labels were wrong")
        self.told.faults["rolled back"] += 1

    def _values(self) -> list[bytes | None]:
        return [r.value for r in self._broker.committed(JOURNAL)]

    def _present(self) -> Settings:
        """The settings that the model has, by the journal."""
        values = self._values()
        return _settings(eras(values)[-1].settings) if values else self._first

    def _config(self, host: Path) -> Any:
        model, corrections = self._settings
        labels = f"[labels]\ncorrections = {str(corrections).lower()}\n{SILENCE * self._silent}"
        sizes = {"max_records": self._most, "every_records": self._every, "model": model}
        made = config(host, TRANSPORT, features=FEATURES, more=labels + self._sections, **sizes)
        commit = made.commit.model_copy(update={"guarantee": self._guarantee})
        return made.model_copy(update={"commit": commit})

    def _judge(self) -> None:
        """Lost, doubled, of the wrong model, learned otherwise."""
        if {*self.told.from_snapshots} != {self.told.from_journal}:
            self.wrong.append("state: from the snapshots it is another than from the journal")
        if not self.told.stands:
            self.wrong.append("offsets: the group does not stand where the journal ends")
        values, inputs = self._values(), {}
        for topic, count in INPUTS.items():
            for part in (TopicPartition(topic, n) for n in range(count)):
                for r in self._broker.committed(part):
                    inputs[*part, r.offset] = r.timestamp, r.value
        said = [value for _, told in sorted(self.told.said.items()) for _, value in told]
        published = [v for v in said if v is not None and b'"position"' in v and b'"model"' in v]
        logs = Logs(inputs, "ans", values, published)
        made: dict[Any, list[dict[str, Any]]] = {}
        for prediction in map(json.loads, published):
            made.setdefault(place_of(prediction), []).append(prediction)
        self._count(inputs, made)
        for era in eras(values):
            if era.own:
                self._compare(era.own, era.commits, made, self._again(logs, era))
        self._compare_model(self._again(logs, eras(values)[-1]))
        self._audit(made)

    def _again(self, logs: Logs, era: Any) -> Learned:
        model, corrections = _settings(era.settings)
        silence = (False, 150) if self._silent else None
        options = {"corrections": corrections, "scored": True, "against": _put_away}
        return learned(logs, era.commits, MODELS[model](), silence, **options)

    def _count(self, inputs: dict[Any, Any], made: dict[Any, list[dict[str, Any]]]) -> None:
        due = {place for place, (_, v) in inputs.items() if place[0] == "obs" and _whole(v)}
        if due != made.keys():
            self.wrong.append(f"predictions: {len(due - made.keys())} missing, of {len(due)}")
        for place, every in made.items():
            if len(every) > 1 and self._guarantee == "exactly_once":
                self.wrong.append(f"predictions: {place} is doubled")
            if any(one != every[0] for one in every):
                self.wrong.append(f"predictions: {place} was repeated in other bytes")

    def _compare(
        self,
        own: set[int],
        commits: list[dict[str, Any]],
        made: dict[Any, list[dict[str, Any]]],
        oracle: Learned,
    ) -> None:
        """The predictions of a span are those of the model of the span."""
        spans = [r for c in commits if c["seq"] in own for r in c["ranges"]]
        for place, (here, *_) in made.items():
            if not any((t, n) == place[:2] and a <= place[2] < b for t, n, a, b, *_ in spans):
                continue
            there = oracle.predictions[place]
            p = dict(map(tuple, here["probabilities"]))
            same = here["prediction"] == there["prediction"] and _near(p, there["probabilities"])
            self.told.faults["compared"] += 1
            if not same:
                self.wrong.append(f"values: {here} where {there} was due")

    def _compare_model(self, oracle: Learned) -> None:
        settings, log = self._config(self._hosts[0]), KafkaLog(["simulated:9092"], OPTIONS)
        found = sources(settings, log)
        end = log.end_offsets([found.journal])[found.journal]
        shard = rebuild(settings, log, found, None, end=end).shard
        view, total = shard.view(), shard.view().quality.scores["all"]
        labels = {outcome: n for outcome, n in view.labels.items() if n}
        if labels != oracle.outcomes:
            self.wrong.append(f"labels: {labels} where {dict(oracle.outcomes)} were due")
        scored = int(view.quality.confusion.sum()), round((total.accuracy or 0) * oracle.scored)
        if scored != (oracle.scored, oracle.right):
            self.wrong.append(f"scores: {scored}, and {oracle.scored, oracle.right} were due")
        x = dict.fromkeys(FEATURES, 0.5)
        if not _near(shard.learner.predict_proba_one(x), oracle.learner.predict_proba_one(x)):
            self.wrong.append("model: it is another one")
        log.close()

    def _audit(self, made: dict[Any, list[dict[str, Any]]]) -> None:
        settings, log = self._config(self._hosts[0]), KafkaLog(["simulated:9092"], OPTIONS)
        found, store = sources(settings, log), open_store(settings)
        for place in self._random.sample(sorted(made), min(3, len(made))):
            if not audit(settings, log, found, store, ":".join(map(str, place))).same:
                self.wrong.append(f"audit: {place} gives other bytes")
        log.close()


def _settings(identity: dict[str, Any]) -> Settings:
    """Of an identity, as the configuration says it."""
    block = identity["model"]
    smoothed = block["parameters"].get("var_smoothing") == 0.5
    model = next(
        text for text in MODELS if f'"{block["type"]}"' in text and ("var" in text) is smoothed
    )
    return model, identity["labels"]["corrections"]


def _put_away(prediction: dict[str, Any]) -> bool:
    return prediction["prediction"] not in (None, False)


def _whole(value: bytes | None) -> bool:
    try:
        json.loads(value or b"")
    except ValueError:
        return False
    return True


def _near(one: dict[Any, float], two: dict[Any, float]) -> bool:
    return one.keys() == two.keys() and all(abs(one[k] - two[k]) < 1e-6 for k in one)

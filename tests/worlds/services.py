"""The configuration of a world as TOML, and the same service for its twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from consumers.config import Config, parse
from tests.worlds.features import LEARNERS, RAW, SCHEMAS, Choice

__all__ = ["KEY", "LABELS", "OBSERVATIONS", "Setting", "Sizes", "fields_of", "sent_fields"]

OBSERVATIONS, LABELS = "obs", "ans"  # after the name of the service
FIELDS = {
    "amount": "numeric", "visits": "numeric", "urgent": "binary", "country": "categorical",
    "tenant": "categorical", "body": "text",
}  # fmt: skip
OF_MAIL = {"subject": "text", "text": "text", "structure": "text"}  # some of the fields it gives
JOINS = {
    "first": "",
    "corrections": "corrections = true",
    "reporters": 'reporter = "by"',
    "silence": 'corrections = true\nsilence = "ham"\nafter = "150ms"\nscore_silence = true',
}
BOUNDS = {"wide": "", "tight": 'max_pending = 15\nhorizon = "300ms"'}
BAD = {
    "few": "",
    "many": "[output]\nmax_dead_letter_ratio = 0.2",
    "missing": '[values]\non_bad_value = "missing"',
}
RIVAL = '[[challenger]]\nname = "{}"\ntype = "{}"\n{}\n'
PROMOTION = '[promotion]\nrule = "e_value"\nthreshold = 3.0'
DRIFT = """
[drift]
action = "{action}"
keep = 30
warm_up = 20
detectors = [
    {{on = "error", type = "DDM", warm_start = 10, drift_threshold = 1.5}},
    {{on = "score", type = "ADWIN", action = "alert"}},
]
"""
DECISIONS = {
    "none": "",
    "losses": "[decision]\nlosses = {keep = {spam = 5.0, ham = 0.0}, bin = {spam = 0.0, ham = 9.0}}"
    "\nreject = 2.0",
    "budget": '[decision]\nmax_false_positive_rate = {label = "spam", rate = 0.2, unsure = 0.6}',
}
OUTPUTS = {"plain": "", "explain": "explain = 4", "cloudevents": "cloudevents = true"}
SNAPSHOTS = {
    "seldom": "every_records = 1000000",
    "often": "every_records = 15",
    "signed": 'every_records = 40\nkey = "${file:{directory}/../files/key}"',
    "copied": 'every_records = 40\ncopy_to = "file://{directory}/copies"',
}
KEY = "sixteen characters and more"
CLASSES = 3  # a fourth label is a dead letter
RELEARNED = 'type = "MixedNB"\nvar_smoothing = 0.01'
NEXT_SHARDS = {1: 2, 2: 3, 3: 1}
CONFIG = """
name = "{name}"
[input]
transport = "{transport}"
observations = "{name}-obs"
{inputs}
max_wait_ms = 60000  # nothing may be processed before a record that lags
[registry]
{registry}
{features}
[labels]
{labels}
[model]
{model}
max_classes = {classes}
{rivals}
{drift}
{decision}
{output}
[commit]
max_records = {max_records}
max_bytes = {max_bytes}
max_delay_ms = {max_delay_ms}
guarantee = "{guarantee}"
[journal]
topic = "{journal}"
[snapshots]
directory = "{directory}/headwater-state"
{snapshots}
[scale]
shards = {shards}
{mix}
[http]
enabled = {http}
port = 0
[serve]
enabled = {serve}
max_age = "50ms"
[telemetry]
window = 100
{more}
"""


@dataclass(frozen=True)
class Sizes:
    """Settings that no prediction depends on, so each start may have others."""

    max_records: int = 400
    max_bytes: int = 2**24
    max_delay_ms: int = 0

    @staticmethod
    def drawn(choice: Choice, random: Random) -> Sizes:
        """Those of the next start."""
        delay = random.choice((0, 0, 5, 30))
        if choice["format"] == "arrow":  # they bound the rows of a message, which is a dead letter
            return Sizes(
                40, random.choice((2_000, 2**24)) if choice["commits"] == "bytes" else 2**24
            )
        if choice["commits"] == "small":
            return Sizes(random.choice((1, 3, 7, 20)), max_delay_ms=delay)
        if choice["commits"] == "bytes":
            return Sizes(400, random.choice((1_024, 2_000, 6_000)), delay)
        return Sizes(random.choice((40, 150, 400)), max_delay_ms=delay)


@dataclass(frozen=True)
class Setting:
    """One service.

    Parameters
    ----------
    choice
        Its features.
    name, transport, directory, registry
        Of the service, its log, its snapshots and its registry. The file is elsewhere.
    shards
        How many; 0: as `choice` says.
    journal
        Its topic; "": by default.
    relearned
        Whether it has the new settings of a relearn.
    more
        Further lines.
    """

    choice: Choice
    name: str
    transport: str
    directory: Path
    registry: str
    shards: int = 0
    journal: str = ""
    relearned: bool = False
    more: str = ""

    @property
    def numbers(self) -> range:
        """Its shards."""
        return range(self.shards or int(self.choice["shards"]))

    @property
    def partitions(self) -> int:
        """Of each input: the same before and after a move."""
        if self.choice["command"] == "reshard":
            return 6
        return 2 if self.choice["shards"] == "1" else 2 * int(self.choice["shards"])

    def moved(self) -> Setting:
        """The service after `headwater reshard`."""
        shards = NEXT_SHARDS[len(self.numbers)]
        return replace(self, shards=shards, journal=f"{self.name}-journal-{shards}")

    def twin(self, transport: str, directory: Path) -> Setting:
        """The same service elsewhere."""
        choice = {**self.choice, "http": "off", "guarantee": "exactly_once"}
        return replace(self, choice=choice, transport=transport, directory=directory, more="")

    def config(self, sizes: Sizes = Sizes()) -> Config:
        """Its configuration."""
        return parse(self.text(sizes), directory=self.directory)

    def text(self, sizes: Sizes = Sizes()) -> str:
        """The same as TOML."""
        c, fields = self.choice, fields_of(self.choice)
        features = "\n".join(f'{name} = "{kind}"' for name, kind in fields.items())
        rows = {"output": OUTPUTS[c["output"]], "values": ""}
        section, _, line = BAD[c["bad"]].partition("\n")
        rows |= {section[1:-1]: f"{rows[section[1:-1]]}\n{line}"} if section else {}
        text = "\n".join(f"[{section}]\n{lines}" for section, lines in rows.items())
        return CONFIG.format(
            name=self.name,
            transport=self.transport,
            inputs=self._inputs(),
            registry=f'url = "{self.registry}"' if c["format"] in SCHEMAS else "",
            features=f"[features]\n{features}" if features else "",
            labels=f"{JOINS[c['join']]}\n{BOUNDS[c['bounds']]}",
            model=self._model(),
            classes=CLASSES,
            rivals=self._rivals(),
            drift=DRIFT.format(action=c["drift"]) if c["drift"] != "none" else "",
            decision=DECISIONS[c["decision"]],
            output=text,
            max_records=sizes.max_records,
            max_bytes=sizes.max_bytes,
            max_delay_ms=sizes.max_delay_ms,
            guarantee=c["guarantee"],
            journal=self.journal or f"{self.name}-journal",
            snapshots=SNAPSHOTS[c["snapshots"]].replace("{directory}", str(self.directory)),
            directory=self.directory,
            shards=len(self.numbers),
            mix='mix = "60ms"' if c["mix"] == "yes" else "",
            http=str(c["http"] == "on").lower(),
            serve=str(c["learner"] != "keys on disk").lower(),
            more=self.more,
        )

    def _inputs(self) -> str:
        c = self.choice
        lines = {
            "json": "",
            "header": 'id_header = "ce_id"',
            "field of mail": 'mail = "raw"',
        }.get(c["format"], f'format = "{c["format"]}"')
        if c["labels"] == "inside":
            return f'{lines}\nlabel = "label"'
        return f'{lines}\nlabels = "{self.name}-{LABELS}"'

    def _model(self) -> str:
        lines = RELEARNED if self.relearned else LEARNERS[self.choice["learner"]].lines
        # The others divide what is allowed, and fields of mail are many.
        return lines + ('\nmax_state_bytes = "4GiB"' if self.choice["mix"] == "yes" else "")

    def _rivals(self) -> str:
        c = self.choice
        if c["rivals"] == "none":
            return ""
        other = ("BernoulliNB", "") if c["format"] in RAW else ("KNNClassifier", "window = 20")
        rivals = RIVAL.format("quick", "MixedNB", "half_life = 30.0") + RIVAL.format("near", *other)
        return rivals + (PROMOTION if c["rivals"] == "promotion" else "")


def fields_of(choice: Mapping[str, str]) -> dict[str, str]:
    """The declared fields; none where they are inferred or given by the format."""
    several = choice["shards"] != "1" or choice["command"] == "reshard"
    if choice["fields"] == "inferred":
        return {}
    if choice["format"] == "text":
        return {"text": "text"} if several else {}
    if choice["format"] == "mail":
        return OF_MAIL if several else {}
    return sent_fields(choice)


def sent_fields(choice: Mapping[str, str]) -> dict[str, str]:
    """The fields of a record with fields of its own."""
    fields = dict(FIELDS)
    if not LEARNERS[choice["learner"]].texts or choice["format"] == "field of mail":
        del fields["body"]
    if choice["learner"] == "PoissonNB":  # a fraction would be a dead letter
        del fields["amount"]
    return fields

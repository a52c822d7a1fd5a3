"""The sections of the configuration: one frozen class each, each rule next to its key.

Every key's description states its meaning, its unit and the reason of its default: docs/config.md
is generated from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    model_validator,
)

from consumers.base.fields import MISSING
from consumers.base.records import UNBOUNDED
from consumers.base.secrets import Secret
from consumers.base.units import (
    decimal_marks,
    duration_ms,
    duration_text,
    shown_url,
    size_bytes,
)
from stream.data.schema import HEAVIEST
from stream.join.label_delay import Silence

__all__ = [
    "LONGEST_NAME",
    "CommitConfig",
    "FieldName",
    "FilesConfig",
    "HttpConfig",
    "JournalConfig",
    "LabelsConfig",
    "OutputConfig",
    "ScaleConfig",
    "Section",
    "Size",
    "SnapshotsConfig",
    "ValuesConfig",
]

DEAD_LETTER_RATIO = 0.5
SHORTEST_KEY = 16  # characters


def _topic(name: str) -> str:
    # Kafka's rule, on every transport, so that a configuration can move to Kafka unchanged.
    if re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name, re.ASCII) and name not in (".", ".."):
        return name
    raise ValueError(
        f"expected a topic name of up to 249 letters, digits, '.', '_' and '-', got {name!r}"
    )


def _remote(url: str) -> str:
    if re.fullmatch(r"[a-z][a-z0-9+.-]*(::[a-z][a-z0-9+.-]*)*://.+", url):
        return url
    raise ValueError(
        f"expected a URL such as s3://BUCKET/PATH or file:///MOUNT, got {shown_url(url)!r}"
    )


def _host(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?", name, re.ASCII) and len(name) < 254:
        return name
    raise ValueError(f"expected a host's name without a port, such as 'metrics', got {name!r}")


def _key(key: Secret) -> Secret:
    if len(key) >= SHORTEST_KEY:
        return key
    raise ValueError(f"expected a secret of {SHORTEST_KEY} characters or more, got a shorter one")


def _decimal(text: str) -> str:
    decimal_marks(text)
    return text


Topic = Annotated[str, AfterValidator(_topic)]
Duration = Annotated[str, AfterValidator(lambda text: duration_text(duration_ms(text)))]
Size = Annotated[int, BeforeValidator(size_bytes)]
LONGEST_NAME = 1000  # characters of a field's name
FieldName = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, and a section is immutable."""

    # Strict: "80" is not a port and true is not a number. A typing error is reported, not guessed.
    # A value may be a secret: pydantic's message must not show it; only `load` reads it.
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, defer_build=True
    )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Its keys, with the secrets removed from URLs."""
        for name, value in super().__repr_args__():
            yield name, shown_url(value) if isinstance(value, str) and "://" in value else value


class ValuesConfig(Section):
    """Values that cannot be used as they are. Part of the identity."""

    missing: list[Annotated[str, Field(max_length=100)]] | None = Field(
        default=None,
        max_length=1000,
        description="Texts that mean that a value is missing, with or without spaces around "
        "them: in numeric and binary fields of a JSON record, and in every column of a CSV "
        "file except those of the id and the label. Default pandas' list (`NA`, `N/A`, `NaN`, "
        "`null`, `None`, an empty text and so on, see [records.md](records.md#missing-values)) "
        "with `?` and `-`, because people and programs write them. A list replaces the "
        "default; `[]` turns this off.",
    )

    on_bad_value: Literal["dead_letter", "missing"] = Field(
        default="dead_letter",
        description="What happens to an observation with a value that does not fit the kind of "
        "its field. `dead_letter`: it becomes a dead letter. `missing`: the value counts as "
        "missing, and `headwater_bad_values_total` counts it by field; an observation without "
        "any other value is still a dead letter. Default `dead_letter`, because a producer that "
        "changes a field must be noticed. `headwater init` writes `missing`, because it infers "
        "kinds from a sample, and one rare value should not cost the other fields.",
    )

    @property
    def texts(self) -> frozenset[str]:
        """`missing`, or the default list."""
        return MISSING if self.missing is None else frozenset(self.missing)


class FilesConfig(Section):
    """How `replay`, `produce` and `backfill` read files."""

    decimal: Annotated[str, AfterValidator(_decimal)] | None = Field(
        default=None,
        description="The decimal mark of the numbers in CSV files, a point or a comma, or the "
        'marks of columns: `"price=,;weight=."`. A mark without a column is for those whose cells '
        "prove none. The other mark groups thousands. `headwater init` writes what it found, so "
        "that later files are read alike; `--decimal` overrides it. Default none: the cells decide "
        "([files.md](files.md#decimal-marks)).",
    )

    @property
    def marks(self) -> dict[str, str]:
        """Column to decimal mark; `*` stands for all that prove none."""
        return {} if self.decimal is None else decimal_marks(self.decimal)


class LabelsConfig(Section):
    """How long observations wait for their labels. Part of the identity."""

    max_pending: int = Field(
        default=100_000,
        ge=1,
        le=100_000_000,
        description="Observations that can wait for a label at the same time. Beyond it the "
        "oldest is evicted and counted. Default 100,000: about 75 MB with 30 numeric fields "
        "and ids of 20 characters, most of it for the ids, because as many settled ids are "
        "remembered.",
    )
    max_pending_bytes: int = Field(
        default=256 * 2**20,
        ge=2**20,
        le=2**40,
        description="Bytes of all ids, labels, categories and texts that are kept while "
        "observations and early labels wait, and afterwards to recognise repeated ids. Beyond "
        "it the oldest are evicted and counted. Early labels and their records take at most a "
        "quarter. A text counts one byte per character, or four if it is not all ASCII. Each "
        "`[[challenger]]` keeps another copy of the texts, which is not counted. Default 256 "
        "MiB, or 2.6 kB for each of 100,000 observations, so that large records cannot take more "
        "memory than small ones.",
    )
    horizon: Duration = Field(
        default="7d",
        description="How long an observation waits for its label, in stream time (`ms`, "
        "`s`, `m`, `h`, `d`). A later label counts as late. Default one week, which covers "
        "labels that people give by hand, including weekends; `max_pending` bounds the "
        "memory.",
    )
    corrections: bool = Field(
        default=False,
        description="Whether a second, different label of an id replaces the first: the old "
        "label is unlearned and the new one is learned. It does so while the id is among the "
        "newest `max_pending` settled ids and within `horizon`. 1,000 are accepted at once, then "
        "one for each eight labels learned. The score stays that of the first label. Default off: "
        "the first label counts, which needs no second store of features and works with every "
        "model.",
    )
    max_weight: float = Field(
        default=100.0,
        strict=False,
        ge=1,
        le=HEAVIEST,
        allow_inf_nan=False,
        description="The largest weight of a label. A label of weight w counts as w labels, so one "
        "of a million would outweigh all that a model has learned. A larger one is a dead letter "
        "with the reason `bad_weight`. Default 100: enough for classes of different cost.",
    )
    reporter: FieldName | None = Field(
        default=None,
        description="Field of a label record that names who gave the label, such as a user of your "
        "system; a nested field by its path. A label is then learned with a weight that follows "
        "from how often later reporters agree with this one, see `[reporters]`. Needs `[input] "
        "labels`. Default none: all labels count alike.",
    )
    silence: bool | int | str | None = Field(
        default=None,
        description="The label of observations that nobody labels: users flag spam, and nobody "
        'flags ham (`silence = "ham"`). It is learned when `after` has passed, unless the '
        "record was decided otherwise, because nobody could object to what was put away. A later "
        "label replaces it, so it needs `corrections = true`. It cannot be combined with "
        "`[[challenger]]`. Default none: what nobody labels is not learned.",
    )
    after: Duration = Field(
        default="24h",
        description="How long silence lasts until it counts, in stream time (`ms`, `s`, `m`, "
        "`h`, `d`); at most `horizon`. Default one day, in which most users look at what they "
        "got.",
    )
    score_silence: bool = Field(
        default=False,
        description="Whether predictions are scored against the label of silence. Default off: "
        "it is an assumption, and only predictions that agree with it would be scored.",
    )
    label_frequency: float | None = Field(
        default=None,
        strict=False,
        ge=0.001,
        le=1,
        allow_inf_nan=False,
        description="The share of the records of all other classes that are labelled, such as 0.3 "
        "if users flag three of ten spams. Probabilities of these classes are divided by it, at "
        "most 1 together (Elkan and Noto 2008). It assumes that each of these records is labelled "
        "with the same probability. Needs `silence` and `[decision] losses`, and excludes "
        "`[output] explain`. Default none: probabilities are those of getting the label.",
    )

    @property
    def horizon_ms(self) -> int:
        """`horizon` in milliseconds."""
        return duration_ms(self.horizon)

    @property
    def unbounded(self) -> LabelsConfig:
        """The same without bounds of what waits, and without a horizon: for records that are
        bounded already."""
        bounds = {"max_pending": UNBOUNDED, "max_pending_bytes": UNBOUNDED, "horizon": "36500d"}
        return self.model_copy(update=bounds)

    @property
    def meaning_of_silence(self) -> Silence | None:
        """`silence` and the keys about it, for the join; None without `silence`."""
        if self.silence is None:
            return None
        frequency = 1.0 if self.label_frequency is None else self.label_frequency
        return Silence(self.silence, duration_ms(self.after), self.score_silence, frequency)

    @model_validator(mode="after")
    def _silence_can_be_taken_back(self) -> Self:
        if self.silence is None:
            for key in ("after", "score_silence", "label_frequency"):
                if key in self.model_fields_set:
                    raise ValueError(f"{key} has no meaning without silence; add silence")
            return self
        if self.silence == "":
            raise ValueError("silence is empty; name the label of what nobody labels")
        if not self.corrections:
            raise ValueError(
                "silence needs corrections = true, because a later label replaces it; add it"
            )
        if not 0 < duration_ms(self.after) <= self.horizon_ms:
            raise ValueError(
                f"after is {self.after}, and observations wait for {self.horizon} (horizon); "
                "choose an after above 0 and at most horizon"
            )
        return self


class OutputConfig(Section):
    """Where predictions and dead letters go."""

    predictions: Topic | None = Field(
        default=None,
        description="Topic of the predictions. Default NAME-predictions, so that two "
        "services never write to one topic by accident.",
    )
    dead_letters: Topic | None = Field(
        default=None,
        description="Topic of the records that cannot be used, with the reason. Default "
        "NAME-dead-letters, for the same reason as above.",
    )
    top: int = Field(
        default=10,
        ge=1,
        le=4096,
        description="Number of most probable labels written with each prediction. Default "
        "10, which keeps records small if there are hundreds of classes.",
    )
    explain: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Number of largest contributions of features or tokens to the log-odds "
        "written with each prediction, for the most probable label against the runner-up. The "
        "prior takes one of the places. In `GaussianBayes`, `CategoricalBayes` and "
        "`MixedBayes` the contributions follow the chain rule: each feature given the "
        "features before it, in the order in which they were first learned. Default 0, no "
        "explanation, because with explanations each prediction is a separate call of about "
        "0.3 ms.",
    )
    notes: bool = Field(
        default=False,
        description="Whether a prediction has `notes`: the fields of its observation that were "
        "not used (see [records.md](records.md#prediction-payments-predictions)). Only for "
        "predictions in JSON. Default no, because each observation is then parsed once more, and "
        "its prediction is encoded alone.",
    )
    cloudevents: bool = Field(
        default=False,
        description="Whether predictions have the headers of CloudEvents 1.0 in binary mode "
        "(`ce_id`, `ce_source`, `ce_type` and so on; see "
        "[records.md](records.md#cloudevents)). Default no, because they are about 200 bytes of "
        "each record.",
    )
    max_dead_letter_ratio: float = Field(
        default=DEAD_LETTER_RATIO,
        strict=False,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Share of dead letters among the last 1,000 observations and labels "
        "above which learning stops and the service is not ready. Predictions continue. "
        "Learning resumes below half of it. 1 turns this off. Default 0.5: if most records "
        "are broken, a producer has changed, and the remaining records cannot be trusted.",
    )


USUAL_RECORDS, MOST_RECORDS = 5_000, 20_000
# Most of a commit costs something for each partition: appends, markers, checksums.
PARTITION_RECORDS, LARGEST_RECORDS = 100, 100_000
USUAL_BYTES, PARTITION_BYTES, LARGEST_BYTES = 16 * 2**20, 128 * 2**10, 128 * 2**20


class CommitConfig(Section):
    """When and how outputs are committed."""

    guarantee: Literal["exactly_once", "at_least_once"] = Field(
        default="exactly_once",
        description="`exactly_once`: predictions, dead letters, journal record and offsets "
        "are one transaction. `at_least_once`: the journal record is committed first, then "
        "the outputs without a transaction, for consumers that cannot read committed records "
        "only; after a crash the outputs of the last journal record are written again, byte "
        "for byte. The model is exact under both. Default `exactly_once`, because a doubled "
        "prediction makes the sums of its consumers wrong.",
    )

    max_records: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_RECORDS,
        description="Maximum number of records in a commit. Each row of an Arrow message counts, "
        "and a message with more rows is a dead letter. Default: 5,000, because the fixed cost of "
        "a transaction is then small per record and a crash repeats little work; as many as "
        "wait, up to 20,000, while more than 5,000 do, because a backlog ends sooner with fewer "
        "transactions; with more than 200 input partitions up to 100 for each, at most 100,000. "
        "Rows of a message: at most 5,000 by default.",
    )
    max_bytes: Size | None = Field(
        default=None,
        ge=2**10,
        le=2**34,
        description="Maximum size of the records in a commit. A record counts as its key, "
        "its value and 128 bytes; a larger record is committed alone. It bounds memory: "
        "records of at most twice this size, and one more per partition, wait to be merged. A "
        "commit has fewer records if their predictions would be larger, "
        "for example with hundreds of classes or explanations. It changes no prediction. "
        "Default 16 MiB: 5,000 records of 3 kB, far below the 1 GiB of a small container; with "
        "more than 128 input partitions 128 KiB for each, at most 128 MiB, so that a commit can "
        "have 100 records of each. A start reads larger journal records, of an earlier setting, in "
        "pieces of this size.",
    )
    max_delay_ms: int = Field(
        default=40,
        ge=0,
        le=60_000,
        description="How long a commit can wait for more records, in milliseconds. Default "
        "40: half of the predictions are visible 60 ms after their observation, with at most 25 "
        "transactions a second on a slow input. Each takes about 10 ms of a processor on Kafka, "
        "so 100 or more saves processor time.",
    )

    @property
    def usual_records(self) -> int:
        """Maximum number of records in a commit, and of rows in a message."""
        return USUAL_RECORDS if self.max_records is None else self.max_records

    def most_records(self, partitions: int) -> int:
        """Maximum number of records in a commit while at least as many wait, of a shard with
        this many input partitions."""
        if self.max_records is not None:
            return self.max_records
        return min(max(MOST_RECORDS, PARTITION_RECORDS * partitions), LARGEST_RECORDS)

    def most_bytes(self, partitions: int = 1) -> int:
        """Maximum size of the records in a commit of a shard with this many input partitions."""
        if self.max_bytes is not None:
            return self.max_bytes
        return min(max(USUAL_BYTES, PARTITION_BYTES * partitions), LARGEST_BYTES)


class JournalConfig(Section):
    """The log of the consumed records; recovery starts from it."""

    topic: Topic | None = Field(
        default=None,
        description="Topic of the journal. Default NAME-journal, because a journal belongs "
        "to one service. Keep it as long as the inputs. With another name the service does "
        "not start, because it would predict every record again; `headwater run "
        "--new-journal` starts a new journal on purpose.",
    )
    retention: Duration = Field(
        default="7d",
        description="How far back the newest snapshot of each day is kept, in addition to "
        "the newest `keep`, by the clock in the journal (`h`, `d`). Default one week: a fault "
        "that is found after a weekend still has a state from before it, for about ten files.",
    )

    @property
    def retention_ms(self) -> int:
        """`retention` in milliseconds."""
        return duration_ms(self.retention)


class SnapshotsConfig(Section):
    """Copies of the state that shorten a restart; losing them costs time, never data."""

    directory: Path = Field(
        default=Path("headwater-state"),
        strict=False,
        description="Directory of the snapshots, relative to this file; created if missing. "
        "Default beside the configuration, so that a restart finds it from any working "
        "directory.",
    )
    every_records: int = Field(
        default=100_000,
        ge=1,
        description="Number of records after which a snapshot is due. Default 100,000: "
        "replaying them at a start takes seconds.",
    )
    every_seconds: float = Field(
        default=60,
        gt=0,
        allow_inf_nan=False,
        description="Time after which a snapshot is due if anything has changed, in "
        "seconds. Default 60: a slow input also restarts at once, with at most one snapshot a "
        "minute.",
    )
    keep: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="Number of newest snapshots to keep; `[journal] retention` adds one a "
        "day. Default 3: if one is damaged, two older ones remain.",
    )
    copy_to: Annotated[str, AfterValidator(_remote)] | None = Field(
        default=None,
        description="fsspec URL to which each snapshot is also copied (`s3://BUCKET/PATH`, "
        "`gs://BUCKET/PATH`, `file:///MOUNT`). A host starts from there if a copy is newer "
        "than its own snapshots, because another host has had the shard since. "
        "Needs [the extra `remote`](install.md#extras), and s3fs or gcsfs for those. Default none, "
        "because a copy costs one upload per snapshot, and a lost copy costs only replay.",
    )

    key: Annotated[InstanceOf[Secret], AfterValidator(_key)] | None = Field(
        default=None,
        description="Secret that signs snapshots, as `${env:NAME}` or `${file:PATH}`, at "
        "least 16 characters. With a key only snapshots signed with it are loaded, so that a "
        "person who can write to `directory` or `copy_to` but does not know the key cannot "
        "replace the model. `headwater snapshots sign CONFIG` signs existing snapshots. "
        "Default none, because only the service writes to the directory. Set it with "
        "`copy_to`.",
    )


class ScaleConfig(Section):
    """How the records are divided between models. `shards` is part of the identity."""

    shards: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="Number of models, which are independent without `mix`. Shard s owns the "
        "partitions p of every input with p mod `shards` = s, and partition s of the journal. "
        "`headwater reshard` changes it under the same name. Default 1, because one model that "
        "sees every record learns fastest. Use more if one process is too slow and the record keys "
        "say which records belong together.",
    )
    standbys: int = Field(
        default=1,
        ge=0,
        le=1024,
        description="How many other processes of the group follow each shard on Kafka: each holds "
        "a copy of its model, repeats its commits and can take it over at once. 0: none; a "
        "takeover then loads the newest snapshot and replays. Not part of the identity. Default 1, "
        "because the group gives the shard of a process that leaves to the process that follows "
        "it, and each follower learns every record again. Use 2 or more if processes may die "
        "together, or if each shall answer requests for more shards.",
    )
    mix: Duration | None = Field(
        default=None,
        description="How often each shard publishes what it has learned to the topic "
        "`NAME-mix`, and takes over what the other shards have published: each shard then "
        "predicts with what all have learned. Whether it is set is part of the identity, how "
        "long it is not. Needs at least two shards, and a model that merges exactly (naive and "
        "full Bayes without `half_life`), or a mixture with such an expert. Default none: each "
        "shard learns alone. `5s` costs little for numbers and categories; a model of texts "
        "publishes megabytes, so give it minutes.",
    )


class HttpConfig(Section):
    """The address of the live page, /status, /metrics, /healthz and /readyz."""

    enabled: bool = Field(
        default=True,
        description="Whether the HTTP server runs. Default on, because a service without "
        "metrics cannot be operated.",
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on. Default this machine only, because there is no "
        "password by default. Use `0.0.0.0` in a container, with `web_config` or behind a "
        "proxy that authenticates.",
    )
    port: int = Field(
        default=8321,
        ge=0,
        le=65535,
        description="TCP port; 0 takes a free one and prints it. Default 8321, which no "
        "well-known service uses.",
    )
    max_idle: Duration = Field(
        default="5m",
        description="How long the loop can stand still before /healthz answers 503, so that "
        "an orchestrator restarts the process. Default 5m: Kafka's own timeouts end every "
        "call within a minute, so a longer call never ends. Raise it if one commit of a slow "
        "model takes longer.",
    )
    allowed_hosts: list[Annotated[str, AfterValidator(_host)]] = Field(
        default_factory=list,
        max_length=100,
        description="Host names that requests can use, without a port, for example the one "
        "that Prometheus or a proxy uses. IP addresses, `host` and loopback names are always "
        "allowed. A request with another name is answered with 421, because it can come from "
        "a foreign page by DNS rebinding. With a password or TLS every name is allowed. "
        "Default none.",
    )
    web_config: Path | None = Field(
        default=None,
        strict=False,
        description="Prometheus' web-config file, relative to this file: "
        "`tls_server_config` and `basic_auth_users`, for every page. Read at the start; needs "
        "[the extra `web`](install.md#extras). Default none, because on loopback it protects "
        "nothing.",
    )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

"""The sections of the configuration: one frozen class each, every rule beside its key.

Every key's description states its meaning, its unit and the reason of its default: docs/config.md
is generated from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
)

from consumers.base.secrets import Secret
from consumers.config.units import (
    duration_ms,
    duration_text,
    shown_url,
    size_bytes,
    utc_text,
)

__all__ = [
    "DEAD_LETTER_RATIO",
    "LONGEST_NAME",
    "Commit",
    "FieldName",
    "Http",
    "Input",
    "Journal",
    "Labels",
    "Output",
    "Scale",
    "Section",
    "Size",
    "Snapshots",
]

DEAD_LETTER_RATIO = 0.5
SHORTEST_KEY = 16  # characters

_SERVER = r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/,@\[\]]+):\d{1,5}"


def _transport(url: str) -> str:
    scheme, _, rest = url.partition(":")
    if scheme == "kafka" and re.fullmatch(rf"//{_SERVER}(,{_SERVER})*", rest):
        return url
    if scheme == "sqlite" and rest not in ("", ":memory:") and not rest.startswith("//"):
        return url
    if scheme == "memory" and re.fullmatch(r"[\w.-]+", rest):
        return url
    raise ValueError(
        f'expected "sqlite:FILE.db", "kafka://HOST:PORT[,HOST:PORT]" or "memory:NAME", got '
        f"{shown_url(url)!r}"
    )


def _topic(name: str) -> str:
    # Kafka's own rule, on every transport, so that a configuration can move to Kafka as it is.
    if re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name, re.ASCII) and name not in (".", ".."):
        return name
    raise ValueError(
        f"expected a topic name of up to 249 letters, digits, '.', '_' and '-', got {name!r}"
    )


def _start(value: object) -> str:
    return value if value in ("earliest", "latest") else utc_text(value)


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


Topic = Annotated[str, AfterValidator(_topic)]
Duration = Annotated[str, AfterValidator(lambda text: duration_text(duration_ms(text)))]
Size = Annotated[int, BeforeValidator(size_bytes)]
LONGEST_NAME = 1000  # characters of a field's name
FieldName = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]


class Section(BaseModel):
    """What all sections share: unknown keys are errors, nothing changes after loading."""

    # Strict: "80" is no port and true is no number; a slip of the pen is told, not guessed.
    # A value may be a secret: pydantic's own message shows none, it is read by `load` alone.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Its keys; URLs without what they hold of a secret."""
        for name, value in super().__repr_args__():
            yield name, shown_url(value) if isinstance(value, str) and "://" in value else value


class Input(Section):
    """Where records come from. Part of the identity, but for `transport` and `max_wait_ms`."""

    transport: Annotated[str, AfterValidator(_transport)] = Field(
        description="The log that holds every topic: `sqlite:FILE.db` (embedded, relative to this "
        "file), `kafka://HOST:PORT[,HOST:PORT]`, or `memory:NAME` (this process only, for tests). "
        "No default: where data lives is never guessed."
    )
    observations: Topic = Field(
        description="Topic of the observations. No default: only you know your feed."
    )
    labels: Topic | None = Field(
        default=None,
        description="Topic of the labels that arrive later, as `{id, label}`. Off by default: some "
        "feeds carry the label inside the observation (`label`), some have none.",
    )
    format: Literal["json"] = Field(
        default="json",
        description="Format of the records. JSON, the only one so far, needs no registry.",
    )
    id: FieldName = Field(
        default="id",
        description="Field with the observation's id, dotted when nested; joins labels. `id` "
        "because most feeds call it so; where it is absent the record's key is taken.",
    )
    label: FieldName | None = Field(
        default=None,
        description="Field of the observation that holds its label, dotted when nested; it is "
        "learned right after the prediction. Off by default: a label that is known at once "
        "needs no prediction, so this is said on purpose.",
    )
    start: Annotated[str, BeforeValidator(_start)] = Field(
        default="earliest",
        description="Where the first run begins: `earliest`, `latest` or a time "
        "(`2024-03-01T12:00:00Z`); later runs go on from the journal. `earliest`, because a model "
        "is better for every record it has seen.",
    )
    max_wait_ms: int = Field(
        default=500,
        ge=0,
        le=60_000,
        description="Milliseconds without any new record for which the merge waits for a partition "
        "that is known to lag. 500: far above a fetch, below what a reader of predictions notices.",
    )

    @property
    def start_ms(self) -> int | None:
        """`start` in ms since 1970; None for earliest and latest."""
        if self.start in ("earliest", "latest"):
            return None
        return round(datetime.fromisoformat(self.start).timestamp() * 1000)


class Labels(Section):
    """How long observations wait for their labels. Part of the identity."""

    max_pending: int = Field(
        default=100_000,
        ge=1,
        le=100_000_000,
        description="Observations that may wait for a label at the same time; beyond it the oldest "
        "is let go and counted. 100,000: about 75 MB where there are 30 numeric fields and ids "
        "of 20 characters, most of it for the ids, of which as many are remembered.",
    )
    max_pending_bytes: int = Field(
        default=256 * 2**20,
        ge=2**20,
        le=2**40,
        description="Bytes of all ids, labels, categories and texts that are held while "
        "observations and early labels wait, and afterwards to recognise repeated ids; beyond it "
        "the oldest are dropped and counted. Early labels take at most a quarter, with their "
        "records. 256 MiB: 2.6 kB for each of 100,000, so that large records do not take more "
        "memory than as many small ones may. A text counts a byte a character, four where it is "
        "not all ASCII. Each `[[challenger]]` holds the texts of the same observations once more. "
        "A journal begun before ids and labels were counted goes on without counting them.",
    )
    horizon: Duration = Field(
        default="7d",
        description="How long an observation waits for its label, in stream time (`ms`, `s`, `m`, "
        "`h`, `d`); a later label is counted as late. A week: covers labels that people give "
        "by hand, weekends included, while `max_pending` bounds the memory.",
    )
    corrections: bool = Field(
        default=False,
        description="Whether a second, different label of an id replaces the first: the old one is "
        "unlearned, the new one learned, while the id is among the newest `max_pending` settled "
        "ones and within `horizon`; the score stays that of the first. Off: the first label "
        "wins, which needs no second store of features and works with every model.",
    )

    @property
    def horizon_ms(self) -> int:
        """`horizon` in milliseconds."""
        return duration_ms(self.horizon)


class Output(Section):
    """Where predictions and dead letters go."""

    predictions: Topic | None = Field(
        default=None,
        description="Topic of the predictions. By default NAME-predictions, so that two services "
        "never write to one topic by accident.",
    )
    dead_letters: Topic | None = Field(
        default=None,
        description="Topic of the records that could not be used, with the reason. By default "
        "NAME-dead-letters, for the same reason.",
    )
    top: int = Field(
        default=10,
        ge=1,
        le=4096,
        description="Most probable labels written with each prediction. 10: keeps a record small "
        "where there are hundreds of classes.",
    )
    explain: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Largest shares of features or tokens in the log-odds written with each "
        "prediction, for the most probable label against the runner-up; the prior takes one of the "
        "places. `GaussianBayes`, `CategoricalBayes` and `MixedBayes` share by the chain rule: "
        "each feature given those before it, in the order they were first learned. 0, none: each "
        "prediction is then made by a call of its own, some 0.3 ms.",
    )
    max_dead_letter_ratio: float = Field(
        default=DEAD_LETTER_RATIO,
        strict=False,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Share of dead letters among the last 1,000 observations and labels above "
        "which learning stops and the service is not ready, while it goes on predicting; below "
        "half of it learning goes on. 0.5: when most records are broken, a sender has changed, "
        "and what still passes is not to be trusted. 1: never.",
    )


class Commit(Section):
    """When work is made final, and how."""

    guarantee: Literal["exactly_once", "at_least_once"] = Field(
        default="exactly_once",
        description="`exactly_once`: predictions, dead letters, journal entry and offsets are one "
        "transaction. `at_least_once`: the journal entry first, then the outputs outside of any "
        "transaction, for readers that cannot read committed records only; after a crash the last "
        "entry's outputs are said once more, byte for byte the same. The model is exact either "
        "way. Exactly once, because a doubled prediction is somebody else's wrong sum.",
    )

    max_records: int = Field(
        default=5_000,
        ge=1,
        le=100_000,
        description="Records in one commit at most. 5,000: the fixed cost of a transaction is "
        "spread thin, and a crash repeats little work.",
    )
    max_bytes: Size = Field(
        default=16 * 2**20,
        ge=2**10,
        le=2**34,
        description="Bytes of the records in one commit at most, 128 a record beside its key and "
        "value; a larger record is committed alone. It bounds memory: twice as much waits to be "
        "merged, and one record more a partition; and where the predictions of `max_records` "
        "would take more, for hundreds of classes or explanations, a commit has fewer records. "
        "It changes no prediction. 16 MiB: 5,000 records of 3 kB, and with all that is made of "
        "them far below the 1 GiB of a small container. At a start entries that are larger, of an "
        "earlier version or setting, are read in pieces of this size.",
    )
    max_delay_ms: int = Field(
        default=100,
        ge=0,
        le=60_000,
        description="Milliseconds a commit may wait to fill. 100: a prediction is visible soon, "
        "with at most ten transactions a second on a slow feed.",
    )


class Journal(Section):
    """The log of what was consumed; the truth after a crash."""

    topic: Topic | None = Field(
        default=None,
        description="Topic of the journal. By default NAME-journal: a journal belongs to one "
        "service. Keep it as long as the inputs. Under another name the service does not start: "
        "it would predict every record again (`headwater run --new-journal` begins on purpose).",
    )
    retention: Duration = Field(
        default="7d",
        description="How far back the newest snapshot of each day is kept, beside the newest "
        "`keep`, by the journaled clock (`h`, `d`). A week: a fault seen after a weekend still "
        "has a state from before it, for some ten files.",
    )

    @property
    def retention_ms(self) -> int:
        """`retention` in milliseconds."""
        return duration_ms(self.retention)


class Snapshots(Section):
    """Copies of the state that shorten a restart; losing them costs time, never data."""

    directory: Path = Field(
        default=Path("headwater-state"),
        strict=False,
        description="Directory of the snapshots, relative to this file; made when missing. Beside "
        "the configuration, so that a restart finds it from any working directory.",
    )
    every_records: int = Field(
        default=100_000,
        ge=1,
        description="Records after which a snapshot is due. 100,000: replaying them at a start "
        "takes seconds.",
    )
    every_seconds: float = Field(
        default=60,
        gt=0,
        allow_inf_nan=False,
        description="Seconds after which a snapshot is due when anything changed. 60: a slow feed "
        "restarts at once too, and the disk is written once a minute at most for it.",
    )
    keep: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="Newest snapshots that are kept; `[journal] retention` adds one a day. 3: a "
        "damaged one leaves two older ones to start from.",
    )
    copy_to: Annotated[str, AfterValidator(_remote)] | None = Field(
        default=None,
        description="URL where each snapshot is copied too, as fsspec knows it "
        "(`s3://BUCKET/PATH`, `gs://BUCKET/PATH`, `file:///MOUNT`): a host without snapshots of "
        "its own starts from there. Needs `headwater[remote]`, and s3fs or gcsfs for those. Off by "
        "default: it costs an upload a snapshot, and a lost copy costs only replay.",
    )

    key: Annotated[InstanceOf[Secret], AfterValidator(_key)] | None = Field(
        default=None,
        description="Secret with which snapshots are signed, as `${env:NAME}` or `${file:PATH}`; "
        "16 characters or more. With it only snapshots signed with it are loaded, so that whoever "
        "can write to `directory` or `copy_to` and does not know it cannot put a model in place "
        "of yours; `headwater snapshots sign CONFIG` signs those that are there. Off by default: "
        "the directory is the service's own. Set it with `copy_to`.",
    )


class Scale(Section):
    """How the work is divided. Part of the identity."""

    shards: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="Independent models: shard s owns the partitions p of every input with p mod "
        "`shards` = s, and partition s of the journal. It cannot change under a name. 1: one model "
        "that sees every record learns fastest; more, where one process cannot keep up and the "
        "key of the records says which belong together.",
    )


class Http(Section):
    """The address of the live page, /metrics, /healthz and /readyz."""

    enabled: bool = Field(
        default=True,
        description="Whether the service listens at all. On: a service nobody can see is not "
        "operated.",
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on. This machine only, because there is no password by "
        "default; `0.0.0.0` in a container, with `web_config` or behind something that asks.",
    )
    port: int = Field(
        default=8321,
        ge=0,
        le=65535,
        description="TCP port; 0 takes any free one and prints it. 8321: no well-known service "
        "uses it.",
    )
    max_idle: Duration = Field(
        default="5m",
        description="How long the loop may stand still before /healthz answers 503, for an "
        "orchestrator to restart the process. 5m: Kafka's own timeouts end any call within a "
        "minute, so that what hangs for longer hangs for ever; raise it where one commit of a slow "
        "model takes longer.",
    )
    allowed_hosts: list[Annotated[str, AfterValidator(_host)]] = Field(
        default_factory=list,
        max_length=100,
        description="Names by which the service may be asked, without a port, such as the one "
        "Prometheus or a proxy uses. Addresses, `host` and names of loopback always may. None by "
        "default: a request by any other name may come from a foreign page by DNS rebinding, and "
        "is answered with 421. With a password or TLS any name may be used.",
    )
    web_config: Path | None = Field(
        default=None,
        strict=False,
        description="Prometheus' web-config file, relative to this file: `tls_server_config` and "
        "`basic_auth_users`, for every page. Read at the start; needs `headwater[web]`. Off by "
        "default: on this machine's own address it protects nothing.",
    )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

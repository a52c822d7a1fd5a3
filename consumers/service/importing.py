"""Start a new service from a model file.

    1. check     the file, and that configuration and inputs fit it
    2. fence     become the owner of the shard; its journal must still be empty
    3. parts     append the file to the journal, in parts
    4. identity  commit journal record 0, which names the file by its hash

Until step 4 the service has no journal. If the process dies before it, the import is repeated, and
the parts that are left mean nothing. From step 4 on the model is part of the journal: every replay
starts with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice

from consumers.base.errors import ConfigError, RecordError, SnapshotError
from consumers.base.failpoints import reach
from consumers.base.records import Partition
from consumers.config import Config
from consumers.config.learner import uses_river
from consumers.config.sample import SAMPLE_SIZE
from consumers.journal.model_parts import MOST_BYTES, parts_of, stored
from consumers.journal.records import History, IdentityRecord, ImportedModel, MovedFrom
from consumers.schemas.translate import Translator
from consumers.service.beginning import begin
from consumers.service.journal_end import check_first_start, traces
from consumers.service.live import Sources
from consumers.shard.assembly import shard_of
from consumers.snapshots import model_file
from consumers.snapshots.exported import defaults_in, kind_of, learned
from consumers.snapshots.locate import locate
from consumers.snapshots.model_file import ModelInfo
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log
from stream.data.schema import Field, Schema, plain_label
from stream.data.state import State
from stream.errors import InvalidRecordError, SchemaError, StateError

__all__ = [
    "HistoryToImport",
    "ModelToImport",
    "began_with_history",
    "check_size",
    "checked",
    "import_model",
]

PARTS_AT_ONCE = 16  # appended by one call of the log


@dataclass(frozen=True, slots=True)
class ModelToImport:
    """A model file that fits the configuration.

    Parameters
    ----------
    info, schema
        What the file says, and its fields.
    data
        The file.
    """

    info: ModelInfo
    schema: Schema
    data: bytes

    @property
    def record(self) -> ImportedModel:
        """How the journal names it."""
        file = stored(self.data)
        named = (file.sha256, file.size, file.parts)
        return ImportedModel(*named, self.info.fingerprint, dict(self.info.source))

    def began(self, identity: IdentityRecord) -> bool:
        """Whether the journal with this record 0 began with the model."""
        first = identity.model
        return first is not None and first.sha256 == stored(self.data).sha256


@dataclass(frozen=True, slots=True)
class HistoryToImport:
    """What the journal says about the history that the model has learned.

    Parameters
    ----------
    manifest, waiting
        Two files: the splits of the history, and the records that still wait; None without any.
    starts
        Where the inputs continue; None: where `[input] start` says.
    until, as_of
        The times in ms at which observations and labels end; None: they have no time.
    time
        The stream time in ms at which the service continues; None if it is not known.
    offsets
        Whether `starts` are the offsets at which it ends, not those of a time.
    moved
        The shards of the service whose models were merged; None: it is no merge.
    """

    manifest: bytes
    waiting: bytes | None
    starts: Mapping[Partition, int] | None
    until: int | None
    as_of: int | None
    time: int | None
    offsets: bool
    moved: MovedFrom | None = None

    @property
    def files(self) -> list[bytes]:
        """What the journal holds in addition to the model."""
        return [self.manifest, *([] if self.waiting is None else [self.waiting])]

    @property
    def record(self) -> History:
        """How the journal names it."""
        left = None if self.waiting is None else stored(self.waiting)
        cut = "offsets" if self.offsets else "time"
        return History(stored(self.manifest), left, cut, self.until, self.time)


def checked(config: Config, data: bytes, *, unsigned: bool = False) -> ModelToImport:
    """The model file, if the configuration fits it.

    Parameters
    ----------
    unsigned
        Accept a file that is not signed with `[snapshots] key`.

    Raises
    ------
    ConfigError
        The configuration has another model, other fields, or labels of another kind.
    SnapshotError
        The file is damaged, or not signed with the key.
    """
    check_size(len(data))
    key = None if unsigned else config.snapshots.key
    try:
        info, state = model_file.from_bytes(data, key)
    except SnapshotError as error:
        hint = "; --unsigned accepts it if you trust the file" if "signed" in str(error) else ""
        raise SnapshotError(f"{error}{hint}") from None
    if uses_river(info.learner) and not config.model.trust_pickle:
        raise ConfigError(
            f"it holds {info.learner['type']} as a pickle, and loading a pickle runs the code in "
            "it; set [model] trust_pickle = true if you trust the file"
        )
    learned(info, state, trust_pickle=config.model.trust_pickle)  # a fault of the file comes first
    schema = Schema(tuple(Field(name, kind) for name, kind in info.fields))  # type: ignore[arg-type]
    _check_fields(config, schema)
    silence = config.labels.silence
    if silence is not None and info.labels.classes and kind_of([silence]) != info.labels.kind:
        raise ConfigError(
            f"[labels] silence is {silence!r}, and the labels of the model are of kind "
            f"{info.labels.kind}, such as {info.labels.classes[0]!r}; use one of them"
        )
    _check_learner(config, info, schema, state)
    return ModelToImport(info, schema, data)


def check_size(size: int) -> None:
    """Raise ConfigError if a file of this size is too large for a journal.

    Examples
    --------
    >>> check_size(2**30)
    """
    if size > MOST_BYTES:
        raise ConfigError(
            f"expected at most {MOST_BYTES:,} bytes, got {size:,}: the journal holds the file"
        )


def _check_fields(config: Config, schema: Schema) -> None:
    declared = config.declared_schema
    if declared is None:
        return
    ours = {field.name: field.kind for field in declared.fields}
    theirs = {field.name: field.kind for field in schema.fields}
    differ = [
        f"{name}: {ours.get(name, 'not declared')} here, {theirs.get(name, 'not')} in the model"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]
    if differ:
        more = f" and {len(differ) - 3} more" if len(differ) > 3 else ""
        raise ConfigError(
            f"[features] are not those of the model ({'; '.join(differ[:3])}{more}); remove the "
            "section to use those of the model"
        )


def _check_learner(config: Config, info: ModelInfo, schema: Schema, state: State) -> None:
    """Load the state into the configured learner, which compares type and parameters."""
    theirs = json.dumps(info.learner)
    try:
        shard = shard_of(
            config,
            schema,
            defaults=defaults_in(info),
            learned=state,
        )
    except (StateError, SchemaError) as error:
        raise ConfigError(
            f"[model] is not the model of the file, which is {theirs}: {error}"
        ) from None
    if len(info.labels.classes) > shard.spec.max_classes:
        raise ConfigError(
            f"the model has {len(info.labels.classes)} classes, and [model] allows "
            f"{shard.spec.max_classes}; raise max_classes or max_state_bytes"
        )


def import_model(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore,
    model: ModelToImport,
    *,
    now: int,
    new_journal: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    history: HistoryToImport | None = None,
) -> bool:
    """Begin the journal of a shard with this model. False if it began with it already.

    Parameters
    ----------
    history
        The history that the model has learned, if this service learned it.
    new_journal
        Whether the service may have run before, with a journal that is gone.
    progress
        Called with the parts written and the parts to write.

    Raises
    ------
    ConfigError
        The service has run before, or its inputs hold labels of another kind.
    TransportError, FencedError
        From the log. The journal shows whether the model was imported; repeat the import.
    """
    record = model.record
    began = partial(_began, config, log, found.journal, store, model.began, "an import")
    if began():
        return False
    if not new_journal:
        shard = found.journal.number
        check_first_start(config, log, shard, found.inputs, store, importing=True)
    if history is None:  # its labels are before the records that are consumed
        _check_labels(config, log, found, model.info)
    owner = log.owner(config.name, found.journal.number, found.inputs)
    try:
        reach("import_fenced")
        if began():  # by another process since
            return False
        files = [model.data, *(() if history is None else history.files)]
        parts = chain.from_iterable(parts_of(data, found.journal, now) for data in files)
        total = sum(stored(data).parts for data in files)
        for done in range(0, total, PARTS_AT_ONCE):
            progress(done, total)
            log.append(list(islice(parts, PARTS_AT_ONCE)))
            reach("import_part")
        reach("import_parts")
        begin(
            config,
            log,
            owner,
            found,
            now=now,
            replaced=traces(config, log, found.inputs, store),
            schema=model.schema,
            defaults=defaults_in(model.info),
            model=record,
            history=None if history is None else history.record,
            starts=None if history is None else history.starts,
            moved=None if history is None else history.moved,
        )
        reach("import_journaled")
    finally:
        owner.close()
    return True


def began_with_history(
    config: Config, log: Log, found: Sources, store: SnapshotStore, manifest: str | None
) -> bool:
    """Whether the journal of a shard began with the history of the manifest with this SHA-256, or,
    for None, with any history.

    Raises
    ------
    ConfigError
        It began in another way.
    """

    def same(identity: IdentityRecord) -> bool:
        history = identity.history
        return history is not None and manifest in (None, history.manifest.sha256)

    return _began(config, log, found.journal, store, same, "a backfill")


def _began(
    config: Config,
    log: Log,
    journal: Partition,
    store: SnapshotStore,
    same: Callable[[IdentityRecord], bool],
    what: str,
) -> bool:
    """Whether the journal began with the same model. ConfigError, which says that `what` cannot be
    done, if it began in another way."""
    origin = locate(config, log, journal, store)
    if origin is None:
        return False
    if same(origin.identity):
        return True
    began = "an empty model" if origin.identity.model is None else "another model"
    raise ConfigError(
        f"the journal {journal} of {config.name} began with {began}, and {what} starts a new "
        "service; give this one a new name"
    )


def _check_labels(config: Config, log: Log, found: Sources, info: ModelInfo) -> None:
    """Compare the kind of the first label in the inputs, because labels of another kind become dead
    letters."""
    if config.input.start != "earliest" or not info.labels.classes:
        return
    topic = config.input.labels or config.input.observations
    field = "label" if config.input.labels else config.input.label
    document = Translator(config, config.input.reader_schema).document
    parts = [p for p in found.inputs if p.topic == topic]
    starts, ends = log.beginning_offsets(parts), log.end_offsets(parts)
    ends = {p: min(end, starts[p] + SAMPLE_SIZE) for p, end in ends.items()}
    for fetched in log.read(starts, ends):
        for value in fetched.values:
            try:
                label = plain_label(document(value)[str(field)])
            except (RecordError, InvalidRecordError, KeyError):
                continue
            if kind_of([label]) != info.labels.kind:
                raise ConfigError(
                    f"the labels of the model are of kind {info.labels.kind}, such as "
                    f"{info.labels.classes[0]!r}, and {topic} has {label!r}: its labels would be "
                    "dead letters"
                )
            return

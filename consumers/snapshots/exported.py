"""From a shard's state, or the counts of words of another spam filter, to a model file, and from a
file to a learner.

Rule: a file names its learner, parameters and fields, so no configuration is needed. A file that is
damaged or cannot be verified gives no model, and a pickle is read only if the caller trusts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from consumers.base.errors import ConfigError, SnapshotError
from consumers.config import Config
from consumers.config.auto import Defaults, auto_of
from consumers.config.learner import (
    ChallengerConfig,
    LearnerConfig,
    ModelConfig,
    Trust,
    accepted_keys,
    uses_code,
    uses_river,
)
from consumers.config.load import message
from consumers.files.bogofilter import bogofilter_counts
from consumers.files.file import local_file
from consumers.journal.records import IdentityRecord, defaults_of
from consumers.shard.challengers import ChallengerSet, challenger_block
from consumers.shard.models import build, limited, one_vs_rest
from consumers.snapshots import format as snapshots
from consumers.snapshots import model_file
from consumers.snapshots.format import SnapshotInfo
from consumers.snapshots.model_file import Labels, Limits, ModelInfo
from stream.data.schema import Field, Label, Schema
from stream.data.state import State
from stream.errors import StreamError
from stream.learner.base import MAX_CLASSES, Learner
from stream.linear import SpamScorer
from stream.mix import unmixed

__all__ = [
    "Counted",
    "defaults_in",
    "extracted",
    "kind_of",
    "learned",
    "load_model",
    "model_file_of",
    "of_bogofilter",
]


LONGEST = 500  # characters of a message about values in a file

_FAULTS = (
    ConfigError,
    StreamError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


def load_model(path: str | Path, key: str | None = None, trust_pickle: bool = False) -> Learner:
    """The learner of a model file, as `headwater export` writes it, or of a snapshot.

    Parameters
    ----------
    path
        The file.
    key
        The `[snapshots] key` with which it was signed. A model file is readable without the key,
        and its signature is then not checked; a signed snapshot is refused without it.
    trust_pickle
        Whether a model of river may be loaded. Its state is a pickle, and loading a pickle runs the
        code in it.

    Returns
    -------
    Learner
        The champion at that time, bit for bit, with its bounds and everything it had learned. It
        accepts dicts by the fields of the service: a string is a text if its field is a text. It
        may continue to learn, which changes neither the file nor the service.

    Raises
    ------
    SnapshotError
        The file is damaged, not signed with the key, another file, of a newer version, or holds a
        model of river that is not trusted.

    Notes
    -----
    The cost is one read of the file and one copy of the model's arrays.

    Examples
    --------
    >>> load_model("no-such-model.hw")
    Traceback (most recent call last):
    consumers.base.errors.SnapshotError: no-such-model.hw: No such file or directory; check the name
    """
    try:
        data = Path(path).read_bytes()
        if not data.startswith((model_file.MAGIC, snapshots.MAGIC, snapshots.SIGNED)):
            raise SnapshotError(
                "not a model file, and not a snapshot of this version; `headwater export` writes "
                "a model file"
            )
        if data.startswith(model_file.MAGIC):
            info, state = model_file.from_bytes(data, key)
        else:
            info, state = extracted(*snapshots.from_bytes(data, key))
        return learned(info, state, trust_pickle=trust_pickle)
    except OSError as error:
        part = "name" if isinstance(error, FileNotFoundError) else "path"
        raise SnapshotError(f"{path}: {error.strerror}; check the {part}") from None
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None


def learned(info: ModelInfo, state: State, *, trust_pickle: bool = False) -> Learner:
    """The learner of a model file, with its state.

    Raises
    ------
    SnapshotError
        This version cannot load it, or its fingerprint differs.
    """
    block, river = dict(info.learner), False
    _refuse_code(block)
    try:
        river = uses_river(block)
        if river and not trust_pickle:
            raise SnapshotError(
                f"it holds {block['type']} as a pickle, and loading a pickle runs the code in it; "
                "if you trust the file, pass trust_pickle=True"
            )
        schema = _schema(info.fields)
        model = LearnerConfig.model_validate({**block, **({"trust_pickle": True} if river else {})})
        classes = MAX_CLASSES if info.one_vs_rest else 2
        learner = build(model, defaults_in(info), classes)
        if info.limits is not None:
            learner.limit(info.limits.max_bytes, schema, info.limits.max_classes)
        learner.load_state(state)
        learner.declare(schema)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        why = f"{'.'.join(map(str, wrong['loc']))}: {message(wrong)}"
        raise SnapshotError(f"this version cannot load its model: {why}") from None
    except _FAULTS as error:
        raise SnapshotError(f"this version cannot load its model: {_short(error)}") from None
    if info.labels != Labels(kind_of(learner.classes), learner.classes):
        raise SnapshotError("damaged: its description has other classes than its state")
    # The pickle of a model has other bytes after loading, so its fingerprint is that of the file.
    # A snapshot has none, because it has a checksum.
    mark = info.fingerprint
    if mark and (state if river else learner).fingerprint() != mark:
        raise SnapshotError("damaged: the loaded model has another fingerprint than the file")
    return learner


def defaults_in(info: ModelInfo) -> Defaults:
    """What the service of the file left open."""
    auto = auto_of(_schema(info.fields)) if info.auto is None else info.auto
    return Defaults(auto)


def model_file_of(
    config: Config,
    schema: Schema,
    learner: Learner,
    source: Mapping[str, Any],
    *,
    several: bool = False,
) -> bytes:
    """The learner of [model] as a model file, signed if there is a key.

    Parameters
    ----------
    source
        Where the model comes from.
    several
        Whether a classifier of river that knows two classes is there once for each class.
    """
    block, state = challenger_block(config.model), learner.to_state()
    info = ModelInfo(
        learner=block,
        auto=auto_of(schema) if block["type"] == "auto" else None,
        one_vs_rest=several,
        limits=None if learner.limits is None else Limits(*learner.limits),
        fields=[(field.name, field.kind) for field in schema.fields],
        values=config.identity()["values"],
        labels=Labels(kind_of(learner.classes), learner.classes),
        source=dict(source),
        fingerprint=learner.fingerprint(),
        state=dict(state.header),
    )
    return model_file.to_bytes(info, state.arrays, config.snapshots.key)


def extracted(about: SnapshotInfo, state: State) -> tuple[ModelInfo, State]:
    """The champion in the state of a shard, as model file.

    Raises
    ------
    SnapshotError
        The state has no champion that this version knows, or no configuration.
    """
    if about.keys is not None:
        raise SnapshotError(
            "its keys are in a file beside it; `headwater export` writes a model file with all keys"
        )
    try:
        return _extracted(about, about.entry, state)
    except _FAULTS as error:
        raise SnapshotError(f"this version cannot load its model: {_short(error)}") from None


def _extracted(about: SnapshotInfo, entry: IdentityRecord, state: State) -> tuple[ModelInfo, State]:
    defaults, schema = defaults_of(entry), _schema(entry.fields)
    contest = dict(state.nested("challengers").header) if "challengers" in state.header else {}
    name = contest.get("champion", "")
    _refuse_code(contest["challengers"][name] if name else entry.identity["model"])
    model = ModelConfig.model_validate(accepted_keys(entry.identity["model"]))
    learner, block = build(model, defaults), challenger_block(model)
    several = one_vs_rest(model, None)
    classes = limited(model, learner, schema)
    if name:
        rivals = ChallengerSet(contest["challengers"], contest["threshold"])
        bounds = (
            classes,
            entry.identity["labels"]["corrections"],
            schema,
            defaults,
        )
        learner = rivals.learner(name, Trust(), *bounds)
        challenger = ChallengerConfig.model_validate({**rivals.challengers[name], "name": name})
        block, several = challenger_block(challenger), one_vs_rest(challenger, classes)
        number = state.nested("contest").nested("contest").header["names"].index(name)
        saved = state.nested("contest").nested(f"shadow {number}").nested("learner")
    else:
        saved = state.nested("machine").nested("learner")
    saved = unmixed(saved)
    header = dict(saved.header)
    limits = None if learner.limits is None else Limits(*learner.limits)
    info = ModelInfo(
        learner=block,
        auto=dict(defaults.auto) if block["type"] == "auto" else None,
        one_vs_rest=several,
        limits=limits,
        fields=list(entry.fields),
        values=dict(entry.identity["values"]),
        labels=Labels(kind_of(header["classes"]), list(header["classes"])),
        source=_source(about, entry, state, name),
        fingerprint="",
        state=header,
    )
    return info, saved


def _short(error: BaseException) -> str:
    """An error in one line, for values of a file that may be long."""
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _refuse_code(model: Mapping[str, Any]) -> None:
    """SnapshotError for a model that is made by Python code: its code is not in any file."""
    if uses_code(model):
        raise SnapshotError(
            f"it is a model of {model['type']}, whose code is not in the file; call this function, "
            "and have it learn the records"
        )


def _source(
    about: SnapshotInfo, entry: IdentityRecord, state: State, champion: str
) -> dict[str, Any]:
    """Where the model comes from."""
    found = {
        "service": about.name,
        "shard": about.shard,
        "model": champion or about.name,
        "journal": about.identity,
        "position": about.position,
        "record": about.seq,
        "clock": about.now,
        "learned": state.nested("shard").header["counts"].get("learned", 0),
        "versions": about.versions,
    }
    if entry.model is not None:
        found["imported"] = {"sha256": entry.model.sha256, **entry.model.source}
    return found


def _schema(fields: list[tuple[str, str]]) -> Schema:
    return Schema(tuple(Field(name, kind) for name, kind in fields))  # type: ignore[arg-type]


def kind_of(labels: list[Label]) -> str:
    """The kind of labels, "" without any.

    Examples
    --------
    >>> kind_of(["spam"]), kind_of([0, 1]), kind_of([True]), kind_of([])
    ('text', 'integer', 'boolean', '')
    """
    kinds = {bool: "boolean", int: "integer", str: "text"}
    return kinds[type(labels[0])] if labels else ""


BODY = "text"  # the field that has the words of the body, if there are several of texts


class Counted(msgspec.Struct, frozen=True):
    """A model file, its words, and those that were left out: of no field, or not one token."""

    data: bytes
    words: int
    left_out: int


def of_bogofilter(config: Config, path: Path) -> Counted:
    """The configured scorer with the counts of a dump, as `bogoutil -d wordlist.db` writes it.

    Raises
    ------
    ConfigError
        The model is not `spam`, its fields are not declared, or the file is no dump.
    """
    learner, schema = build(config.model, Defaults()), config.declared_schema
    if not isinstance(learner, SpamScorer):
        raise ConfigError(f'--bogofilter needs [model] type = "spam", got {config.model.type!r}')
    if schema is None:
        raise ConfigError("--bogofilter needs the fields of the records; write [features]")
    limited(config.model, learner, schema)
    given = bogofilter_counts(local_file(path), text=_body(schema))
    found = learner.learn_counts(given.words, given.records)
    source = {
        "service": "bogofilter",
        "shard": 0,
        "model": path.name,
        "position": 0,
        "learned": int(sum(given.records.values())),
    }
    data = model_file_of(config, schema, learner, source)
    left_out = given.left_out + found["left_out"] + found["refused"]
    return Counted(data, found["learned"], left_out)


def _body(schema: Schema) -> str:
    texts = schema.text
    if BODY in texts or len(texts) != 1:
        return BODY
    return texts[0]

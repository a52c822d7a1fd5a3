"""A model file that begins with the counts of words of another spam filter."""

from __future__ import annotations

from pathlib import Path

import msgspec

from consumers.base.errors import ConfigError
from consumers.config import Config
from consumers.config.auto import Defaults
from consumers.files.bogofilter import bogofilter_counts
from consumers.files.file import local_file
from consumers.shard.models import build, limited
from consumers.snapshots.exported import model_file_of
from stream.data.schema import Schema
from stream.linear import SpamScorer

__all__ = ["Counted", "of_bogofilter"]

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

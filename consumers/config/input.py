"""[input]: where records come from, and what their bytes are.

`[reporters]`: how much the people who give labels are trusted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from consumers.base.units import shown_url, utc_text
from consumers.codecs.registry import lacks, wire_format, wire_formats
from consumers.config.sections import FieldName, Section, Topic
from consumers.transports.registry import forms, is_well_formed, transports
from stream.data.schema import Kind
from stream.join.reporters import ReporterRules

__all__ = ["InputConfig", "MailConfig", "ReportersConfig"]

_HEADER = re.compile(r"(?=.*[!-)+-9;-~])[!-9;-~]{1,100}")


def _transport(url: str) -> str:
    if is_well_formed(url):
        return url
    raise ValueError(f"expected {forms()}, got {shown_url(url)!r}")


def _wire_format(name: str) -> str:
    known = wire_formats().get(name)
    if known is None:
        raise ValueError(f"expected {' or '.join(map(repr, wire_formats()))}, got {name!r}")
    if missing := lacks(known):
        raise ValueError(f"{name!r} needs {missing}")
    return name


def _mail(field: str) -> str:
    _wire_format("mail")
    return field


def _start(value: object) -> str:
    return value if value in ("earliest", "latest") else utc_text(value)


def _header(name: str) -> str:
    if _HEADER.fullmatch(name):
        return name.lower()
    raise ValueError(
        f"expected the name of a header, in which * is any text, such as X-Our-*, got {name!r}"
    )


class MailConfig(Section):
    """What of a mail is evidence. Part of the identity."""

    ignore_headers: Annotated[
        tuple[Annotated[str, AfterValidator(_header)], ...], Field(strict=False, max_length=100)
    ] = Field(
        default=(),
        description="Headers that are no evidence, in which `*` is any text, such as "
        '`["X-Our-*"]`: what your servers and filters add to a mail. Those that well-known filters '
        "and mailboxes add, such as `X-Spam-*` and `Status`, never are "
        "([records.md](records.md#mail)). Default none, because all others are what a sender or a "
        "server wrote before.",
    )


class InputConfig(Section):
    """Where records come from. Part of the identity, except `transport` and `max_wait_ms`."""

    transport: Annotated[str, AfterValidator(_transport)] = Field(
        description="The log that holds every topic: "
        + ", ".join(f"`{each.form}` ({each.about})" for each in transports().values())
        + ". No default, because the location of data is never guessed."
    )
    observations: Topic = Field(
        description="Topic of the observations. No default, because only you know your topic."
    )
    labels: Topic | None = Field(
        default=None,
        description="Topic of the labels that arrive later, as `{id, label}`. Default none, "
        "because some inputs have the label inside the observation (`label`) and some have no "
        "labels.",
    )
    format: Annotated[str, AfterValidator(_wire_format)] = Field(
        default="json",
        description="Format of the records in all topics of the service: "
        + ", ".join(f"`{each.name}` ({each.about})" for each in wire_formats().values())
        + ". `arrow` ([howto/arrow.md](howto/arrow.md)) and `mail` ([records.md](records.md#mail)) "
        "need [the extras](install.md#extras) of these names. Formats with schemas need "
        "`[registry]` and the extra `registry`; see "
        "[howto/schema-registry.md](howto/schema-registry.md). Default `json`, because it needs "
        "nothing else.",
    )
    mail: Annotated[FieldName, AfterValidator(_mail)] | None = Field(
        default=None,
        description="Field of a JSON observation that holds a raw mail in base64. The fields of "
        'the mail are features, as with `format = "mail"`, beside those of `[features]`. Needs '
        "[the extra `mail`](install.md#extras). Default none: records have no mail.",
    )
    reader_schema: str | None = Field(
        default=None,
        description="File with the reader's schema of the observations, for `avro`. Every "
        "observation is converted to it by Avro's rules: fields that it does not have get its "
        "defaults, and renamed fields are found by their aliases. Default none: each record keeps "
        "the schema it was written with.",
    )
    id: FieldName = Field(
        default="id",
        description="Field with the observation's id, by its dotted path if nested. Labels "
        "are joined by it. Where the field is absent, the record's key is the id. Default "
        "`id`, the most common name.",
    )
    id_header: FieldName | None = Field(
        default=None,
        description="Header of the observation's record that holds the id, such as `ce_id` of "
        "CloudEvents in binary mode. `id` is then this name too, unless it is given: an "
        "observation with a field of this name has its id there, and one without header and "
        "field has the record's key. Default none: headers are not read.",
    )
    label: FieldName | None = Field(
        default=None,
        description="Field of the observation that holds its label, by its dotted path if "
        "nested. The label is learned right after the prediction. Default none, because a "
        "label that is known at once needs no prediction, so you have to ask for it.",
    )
    numbers_as_text: Annotated[tuple[FieldName, ...], Field(strict=False, max_length=1000)] = Field(
        default=(),
        description="Numeric fields in which a text that is a number stands for it, such as "
        '`["amount"]` for `"amount": "12.50"`: Debezium, databases and programs for money write '
        "decimal numbers so. `headwater_numbers_as_text_total` counts them. `headwater init` "
        "proposes it. Default none: a text in a numeric field is a value that does not fit.",
    )
    tombstones: Literal["dead_letter", "skip"] = Field(
        default="dead_letter",
        description="What happens to a record without a value, which marks a deleted key in a "
        "compacted topic. `skip`: it is ignored, and `headwater_ignored_records_total` counts it. "
        "Default `dead_letter`, because most topics have none, and a producer that writes them "
        "by mistake must be noticed.",
    )
    changes: Annotated[tuple[Literal["c", "r", "u"], ...], Field(strict=False, max_length=3)] = (
        Field(
            default=(),
            description="The records of all inputs are change events of Debezium, and the row in "
            '`after` is the record where `op` is one of these: `["c", "r"]` are new rows and those '
            "of the first snapshot, `u` are updates. Others are ignored and counted "
            "([howto/change-data.md](howto/change-data.md)). Needs `[features]`. Default none: the "
            "record itself is the observation.",
        )
    )
    start: Annotated[str, BeforeValidator(_start)] = Field(
        default="earliest",
        description="Where the first run starts: `earliest`, `latest` or a time "
        "(`2024-03-01T12:00:00Z`). Later runs continue from the journal. Default `earliest`, "
        "because a model gets better with every record.",
    )
    max_wait_ms: int = Field(
        default=500,
        ge=0,
        le=60_000,
        description="How long the merge waits for a partition that is known to lag, in "
        "milliseconds without a new record from any partition. Default 500: much longer than "
        "a fetch, and shorter than a consumer of predictions notices.",
    )

    @model_validator(mode="before")
    @classmethod
    def _id_is_in_the_header(cls, given: object) -> object:
        if isinstance(given, Mapping) and isinstance(name := given.get("id_header"), str):
            return {"id": name, **given}
        return given

    @model_validator(mode="after")
    def _changes_are_rows(self) -> Self:
        if self.changes and (self.mail is not None or self.fields):
            raise ValueError("changes are rows of a table, not mails or texts; remove one key")
        if (self.changes or self.tombstones == "skip") and wire_format(self.format).rows:
            raise ValueError(
                f"rows of {self.format} messages are no tombstones or change events; remove the key"
            )
        return self

    @model_validator(mode="after")
    def _rows_have_no_headers(self) -> Self:
        if self.id_header is not None and wire_format(self.format).rows is not None:
            raise ValueError(
                f"rows of {self.format} messages have no headers of their own, so id_header cannot "
                "hold their ids; remove the key and name the column in id"
            )
        return self

    @field_validator("reader_schema")
    @classmethod
    def _readable(cls, text: str | None, info: ValidationInfo) -> str | None:
        name = info.data.get("format")
        if text is None or name is None:
            return text
        check = wire_format(name).check_reader
        if check is None:
            raise ValueError(
                f"records in the format {name} have no reader's schema, Avro has; remove the key"
            )
        return check(text)

    @model_validator(mode="after")
    def _one_format(self) -> Self:
        given = wire_format(self.format).fields
        if self.mail is not None and self.format != "json":
            raise ValueError(
                f"mail is a field of JSON records, and format is {self.format!r}; remove one of "
                "the two keys"
            )
        if given is not None and self.label is not None:
            raise ValueError(
                f"records in the format {self.format} have no label inside; remove label, and name "
                "the topic of the labels in labels"
            )
        return self

    @property
    def fields(self) -> Mapping[str, Kind]:
        """The fields that the format gives to every observation; empty if it gives none."""
        if self.mail is not None:
            return wire_format("mail").fields or {}
        return wire_format(self.format).fields or {}

    def mail_field(self, wire: str) -> str | None:
        """The field that holds a mail in base64, in records of the format `wire`: those of the
        topic, or JSON of a file."""
        return wire_format(self.format).field if wire != self.format else self.mail

    @property
    def versions(self) -> dict[str, str]:
        """Name to version of what decides the values of `fields`."""
        return dict(wire_format(self.format if self.mail is None else "mail").versions())

    @property
    def key_headers(self) -> dict[str, str]:
        """The headers that replace keys; see `consumers.transports.open_log`."""
        return {} if self.id_header is None else {self.observations: self.id_header}

    @property
    def start_ms(self) -> int | None:
        """`start` in ms since 1970; None for earliest and latest."""
        if self.start in ("earliest", "latest"):
            return None
        return round(datetime.fromisoformat(self.start).timestamp() * 1000)


class ReportersConfig(Section):
    """How much those who give labels are trusted; needs `[labels] reporter`. Part of the identity.

    [howto/reporters.md](howto/reporters.md) explains the rules.
    """

    max_reporters: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Reporters that are remembered. Beyond it the least recently used one that "
        "nobody has agreed or disagreed with leaves, and is counted "
        '(`headwater_overflow_total{bound="reporters"}`). Default 10,000: about 3 MB with names of '
        "30 characters.",
    )
    max_labels_per_hour: int = Field(
        default=1_000,
        ge=1,
        le=2**31,
        description="Labels of one reporter that are accepted in an hour of stream time, from full "
        "hour to full hour (UTC). One above it is a dead letter with the reason `reporter_rate`. "
        "Default 1,000: more than a person gives by hand, and less than a script can do harm with. "
        "The anonymous reporter has the same cap.",
    )
    min_trust: float = Field(
        default=0.6,
        strict=False,
        gt=0.5,
        lt=1,
        allow_inf_nan=False,
        description="Labels of a reporter with less trust are not learned. They are compared with "
        "the labels of others, so trust can recover. Default 0.6, at which a label has a fifth of "
        "its weight.",
    )
    prior_trust: float = Field(
        default=0.8,
        strict=False,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="Trust of a new reporter: the share of labels that you expect to be right. "
        "Default 0.8: labels of a new reporter have 60 % of their weight.",
    )
    prior_labels: float = Field(
        default=5.0,
        strict=False,
        gt=0,
        le=10_000,
        allow_inf_nan=False,
        description="How many verdicts of others `prior_trust` counts as. Default 5: a "
        "new reporter is no longer trusted after two contradictions of trusted reporters, or "
        "three of new ones.",
    )
    without_reporter: Literal["anonymous", "trusted"] = Field(
        default="anonymous",
        description="Who gives a label that names nobody. `anonymous`: one reporter like others. "
        "`trusted`: it has its full weight, no cap, and outvotes all others; for labels of your "
        "own systems. Default `anonymous`, so that leaving out a name is no advantage.",
    )

    @property
    def rules(self) -> ReporterRules:
        """The settings, for the join."""
        return ReporterRules(
            self.max_reporters,
            self.max_labels_per_hour,
            self.min_trust,
            self.prior_trust,
            self.prior_labels,
            self.without_reporter == "trusted",
        )

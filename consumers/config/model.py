"""The configuration: one frozen model of the TOML file.

The sections are in `sections`. This file has the rules that concern several sections, the names
of the topics, and the identity of the model: which keys of two differ, and which may change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from consumers.codecs.registry import wire_format
from consumers.config.auto import ON_DISK
from consumers.config.decision import DecisionConfig, DriftConfig
from consumers.config.input import InputConfig, MailConfig, ReportersConfig
from consumers.config.learner import (
    SERVICE_NAME,
    ChallengerConfig,
    ModelConfig,
    PromotionConfig,
    accepted_keys,
    names_deeper,
)
from consumers.config.sections import (
    CommitConfig,
    FieldName,
    FilesConfig,
    HttpConfig,
    JournalConfig,
    LabelsConfig,
    OutputConfig,
    ScaleConfig,
    Section,
    SnapshotsConfig,
    ValuesConfig,
)
from consumers.config.serve import RegistryConfig, ServeConfig, TelemetryConfig
from consumers.mail.later import IGNORED
from consumers.transports.registry import transport_of
from stream.contest import MOST
from stream.data.schema import Field as Feature
from stream.data.schema import Kind, Schema
from stream.decision.risk import named
from stream.drift.rule import RESTARTS

__all__ = ["Config", "identity_difference", "relearnable"]

# The keys of [labels] that `headwater relearn` changes.
RELEARNED_LABELS = ("corrections", "horizon", "max_pending", "max_pending_bytes")

_ABSENT = object()


def identity_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The dotted keys in which two identities differ, with both values; empty when equal.

    Examples
    --------
    >>> old = {"model": {"type": "GaussianNB", "seed": 42}, "features": None}
    >>> new = {"model": {"type": "MultinomialNB", "seed": 42}, "features": {"x": "text"}}
    >>> for line in identity_difference(old, new):
    ...     print(line)
    features: was not set, now {"x": "text"}
    model.type: was "GaussianNB", now "MultinomialNB"
    """
    return list(_differences("", old, new))


def relearnable(differences: Sequence[str]) -> bool:
    """Whether `headwater relearn` can make all of these changes: [model], [labels] corrections,
    how long and how many observations wait, whether shards mix, and another version of the parser
    of the records.

    Examples
    --------
    >>> relearnable(['model.type: was "GaussianNB", now "MixedNB"'])
    True
    >>> relearnable(["model.seed: was 42, now 43", 'labels.horizon: was "7d", now "40d"'])
    True
    >>> relearnable(['labels.silence: was not set, now "ham"'])
    False
    """
    keys = [line.partition(":")[0] for line in differences]
    relearned = ("scale.mix", *(f"labels.{key}" for key in RELEARNED_LABELS))
    return all(key.startswith(("model.", "input.parser.")) or key in relearned for key in keys)


def _differences(key: str, old: object, new: object) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        lines = []
        for name in sorted(old.keys() | new.keys()):
            inner = f"{key}.{name}" if key else name
            lines += _differences(inner, old.get(name, _ABSENT), new.get(name, _ABSENT))
        return lines
    # As text: 1, 1.0 and true are equal in Python and different in a configuration.
    was, now = _shown(old), _shown(new)
    return [] if was == now else [f"{key}: was {was}, now {now}"]


def _shown(value: object) -> str:
    if value is None or value is _ABSENT:
        return "not set"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


_NOT_LEARNED = (
    ("input", "transport"),
    ("input", "max_wait_ms"),
    ("model", "trust_pickle"),
    ("model", "trust_python"),
    ("scale", "standbys"),
)
# Keys that decide nothing while a key of their section has its default, with that key.
_UNUSED = (
    ("input", "numbers_as_text", "numbers_as_text"),
    ("input", "tombstones", "tombstones"),
    ("input", "changes", "changes"),
    ("labels", "after", "silence"),
    ("labels", "score_silence", "silence"),
)


class Config(Section):
    """The whole file."""

    name: str = Field(
        pattern=SERVICE_NAME,
        description="Name of the service: its consumer group, its model name and the prefix "
        "of its topics. Up to 100 letters, digits, `.`, `_` and `-`. No default, because two "
        "services with one name would fence each other.",
    )
    input: InputConfig
    mail: MailConfig = MailConfig()
    registry: RegistryConfig = RegistryConfig()
    features: dict[FieldName, Kind] | None = Field(
        default=None,
        description='Fields to learn from, `NAME = "numeric" | "binary" | "categorical" | '
        '"text"`; a nested field by its dotted path. A field whose own name has the dots, as '
        "the columns of some CSV files, comes before the path. All other fields are ignored. "
        "Without this section the fields are inferred from the first 500 observations at the "
        "first start; text is never inferred and must be declared. The formats `mail` and `text` "
        "have fields of their own ([records.md](records.md#mail)), so the section is not needed; "
        "it can name some of them.",
    )
    values: ValuesConfig = ValuesConfig()
    files: FilesConfig = FilesConfig()
    labels: LabelsConfig = LabelsConfig()
    reporters: ReportersConfig = ReportersConfig()
    model: ModelConfig = ModelConfig()
    challenger: Annotated[tuple[ChallengerConfig, ...], Field(strict=False, max_length=MOST)] = ()
    promotion: PromotionConfig = PromotionConfig()
    decision: DecisionConfig = DecisionConfig()
    drift: DriftConfig = DriftConfig()
    output: OutputConfig = OutputConfig()
    commit: CommitConfig = CommitConfig()
    journal: JournalConfig = JournalConfig()
    snapshots: SnapshotsConfig = SnapshotsConfig()
    scale: ScaleConfig = ScaleConfig()
    http: HttpConfig = HttpConfig()
    serve: ServeConfig = ServeConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    kafka: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of the Kafka client, by kafka-python's names "
        '(`security_protocol = "SASL_SSL"`). A value `"${env:NAME}"` or `"${file:PATH}"` is '
        "read when the file is loaded and never printed; passwords are accepted in this form "
        "only. A login without TLS (`SASL_PLAINTEXT`) and an unchecked host name "
        "(`ssl_check_hostname = false`) also need `insecure = true`. Default empty: a broker "
        "without encryption and password.",
    )

    _parser: dict[str, str] | None = PrivateAttr(default=None)

    @field_validator("features", mode="before")
    @classmethod
    def _flat(cls, features: object) -> object:
        # TOML reads `address.city = "categorical"` as a table in a table.
        if not isinstance(features, dict):
            return features
        flat: dict[str, object] = {}
        for name, kind in features.items():
            inner = cls._flat(kind)
            if isinstance(inner, dict):
                flat.update({f"{name}.{k}": v for k, v in inner.items()})
            else:
                flat[name] = inner
        return flat

    @field_validator("features")
    @classmethod
    def _usable(cls, features: dict[str, Kind] | None, info: ValidationInfo) -> Any:
        if features is not None and not features:
            raise ValueError("expected at least one field; leave the section out to infer them")
        source = info.data.get("input")
        for role in ("id", "label"):
            name = getattr(source, role, None)
            if name is not None and name in (features or {}):
                raise ValueError(
                    f"{name!r} is the {role} and never a feature; remove it from [features]"
                )
        return features

    @model_validator(mode="after")
    def _mails_have_headers(self) -> Self:
        if self.mail.ignore_headers and not self.input.versions:
            raise ValueError(
                "[mail] ignore_headers is for mails, and [input] names none; remove it, or set "
                '[input] format = "mail"'
            )
        return self

    @model_validator(mode="after")
    def _features_of_the_format(self) -> Self:
        given, kinds = self.input.fields, self.features or {}
        if self.input.mail is not None:
            if twice := sorted(given.keys() & kinds.keys()):
                raise ValueError(f"[features] {twice[0]} is a field of the mail; remove it")
            return self
        for name, kind in kinds.items() if given else ():
            if given.get(name) != kind:
                fields = ", ".join(f'{field} = "{kind}"' for field, kind in given.items())
                raise ValueError(
                    f"[features] {name}: records in the format {self.input.format} have the fields "
                    f"{fields}; remove the section to learn from all of them"
                )
        return self

    @model_validator(mode="after")
    def _texts_are_numeric(self) -> Self:
        for name in self.input.numbers_as_text:
            if (self.features or {}).get(name) != "numeric":
                raise ValueError(
                    f"[input] numbers_as_text: {name!r} is not numeric in [features]; declare it "
                    f'there: {name} = "numeric"'
                )
        return self

    @model_validator(mode="after")
    def _rows_have_fields(self) -> Self:
        if self.input.changes and self.features is None:
            raise ValueError("[input] changes needs [features]: declare the columns to learn from")
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        taken = {self.name: "the service and of [model]"}
        for challenger in self.challenger:
            name = challenger.name
            if name in taken:
                raise ValueError(
                    f"[[challenger]] {name!r} is the name of {taken[name]} too; give it one of its "
                    "own"
                )
            taken[name] = "another challenger"
        return self

    @model_validator(mode="after")
    def _roles_differ(self) -> Self:
        if self.input.id == self.input.label:
            raise ValueError(f"[input] id and label are both {self.input.id!r}; name two fields")
        seen: dict[str, str] = {}
        for role, topic in self.topics.items():
            if topic in seen:
                raise ValueError(
                    f"{seen[topic]} and {role} are both topic {topic!r}; give each its own topic"
                )
            seen[topic] = role
        return self

    @model_validator(mode="after")
    def _notes_are_json(self) -> Self:
        if self.output.notes and wire_format(self.input.format).predictions is not None:
            raise ValueError(
                f"[output] notes needs predictions in JSON, and with [input] format = "
                f"{self.input.format!r} they have a schema without notes; remove it"
            )
        return self

    @model_validator(mode="after")
    def _schemas_come_from_a_registry(self) -> Self:
        if wire_format(self.input.format).schema_type and self.registry.url is None:
            raise ValueError(
                f"[input] format = {self.input.format!r} has schemas, and [registry] url is not "
                "set; give the schema registry"
            )
        return self

    @model_validator(mode="after")
    def _numbers_to_watch(self) -> Self:
        if (schema := self.declared_schema) is not None:
            self.drift.of(schema)
        return self

    @model_validator(mode="after")
    def _shared_log(self) -> Self:
        if self.serve.port is not None and transport_of(self.input.transport).private:
            raise ValueError(
                f"[serve] port: expected a log that other processes see, got "
                f"{self.input.transport.partition(':')[0]}; use sqlite or Kafka, or remove port"
            )
        return self

    @model_validator(mode="after")
    def _someone_to_choose(self) -> Self:
        if self.drift.rule.chooses and not self.challenger:
            raise ValueError(
                '[drift] action = "challenger" chooses between models, and there is one; add a '
                "[[challenger]]"
            )
        return self

    @model_validator(mode="after")
    def _others_to_mix_with(self) -> Self:
        if self.scale.mix is None:
            return self
        if self.scale.shards == 1:
            raise ValueError("[scale] mix needs several shards, and there is one; remove mix")
        if self.decision.budget is not None:
            raise ValueError(
                "[scale] mix and [decision] max_false_positive_rate exclude each other: the "
                "evidence of a shard is about what it has learned itself; remove one of them"
            )
        if any(monitor.action in RESTARTS for monitor in self.drift.rule.monitors):
            raise ValueError(
                "[scale] mix and a [drift] action that restarts the model exclude each other: the "
                'other shards would give back what it forgets; use action = "alert" or "challenger"'
            )
        return self

    @model_validator(mode="after")
    def _keys_stay_on_this_disk(self) -> Self:
        others = {f"[[challenger]] {c.name}": {"": c.parameters} for c in self.challenger}
        for where, parameters in {"an expert of [model]": self.model.parameters, **others}.items():
            if names_deeper(parameters, ON_DISK):
                raise ValueError(f"{where}: {ON_DISK} is a key of [model] only; remove it there")
        if self.model.parameters.get(ON_DISK) is not True:
            return self
        restarts = any(monitor.action in RESTARTS for monitor in self.drift.rule.monitors)
        for found, what, why in (
            (self.model.bins is not None, "bins", "the models of keys have none"),
            (self.snapshots.copy_to is not None, "[snapshots] copy_to", "a copy has no keys"),
            (self.snapshots.key is not None, "[snapshots] key", "the rows of keys are not signed"),
            (restarts, "a [drift] action that restarts the model", "the keys would stay"),
        ):
            if found:
                raise ValueError(f"[model] {ON_DISK} excludes {what}: {why}; remove one of them")
        if self.serve.enabled and self.http.enabled:
            raise ValueError(
                f"[model] {ON_DISK} and [serve] exclude each other: requests are answered by a "
                "copy of the model, which would have all keys in memory; set [serve] enabled = "
                "false"
            )
        return self

    @model_validator(mode="after")
    def _silence_is_heard(self) -> Self:
        silence = self.labels.silence
        if silence is None:
            return self
        if self.challenger:
            raise ValueError(
                "[labels] silence and [[challenger]] exclude each other: what silence teaches "
                "depends on the published predictions; remove one of them"
            )
        if self.labels.label_frequency is not None and self.decision.losses is None:
            raise ValueError(
                "[labels] label_frequency needs [decision] losses: without them everything above "
                "one half is put away, also by an early error, and what is put away teaches nothing"
            )
        if self.labels.label_frequency is not None and self.output.explain:
            raise ValueError(
                "[labels] label_frequency and [output] explain exclude each other: an explanation "
                "is of the probability before it is corrected; remove one of them"
            )
        losses = self.decision.named
        if losses is not None and named(silence) not in losses:
            raise ValueError(
                f"[labels] silence is {silence!r}, and [decision] losses names "
                f"{', '.join(map(repr, sorted(losses)))}; use one of these labels"
            )
        return self

    @model_validator(mode="after")
    def _reporters_are_named(self) -> Self:
        field, rules = self.labels.reporter, self.reporters
        if field is None:
            for key in sorted(rules.model_fields_set):
                raise ValueError(
                    f"[reporters] {key} has no meaning without [labels] reporter; name the field "
                    "of a label that has its reporter"
                )
            return self
        if self.input.labels is None:
            raise ValueError(
                "[labels] reporter needs [input] labels: a label inside an observation has no "
                "reporter; name the topic of the labels"
            )
        if field in ("id", "label", "w"):
            raise ValueError(
                f"[labels] reporter = {field!r} is another field of a label; name the one that has "
                "its reporter"
            )
        if rules.prior_trust < rules.min_trust and rules.without_reporter != "trusted":
            raise ValueError(
                f"[reporters] prior_trust is {rules.prior_trust}, less than min_trust "
                f"({rules.min_trust}), so nobody could ever be trusted; raise prior_trust, or set "
                'without_reporter = "trusted" if others are to confirm new reporters'
            )
        return self

    @model_validator(mode="after")
    def _evidence_is_of_one_model(self) -> Self:
        if self.decision.budget is None:
            return self
        needs = "excludes [decision] max_false_positive_rate"
        if self.labels.silence is not None:
            raise ValueError(
                f"[labels] silence {needs}: it gives no label to flagged records, so false "
                "positives would not be counted; remove one of them"
            )
        if self.challenger:
            raise ValueError(
                f"[[challenger]] {needs}: the evidence is about one model; remove one of them"
            )
        if any(monitor.action != "alert" for monitor in self.drift.rule.monitors):
            raise ValueError(
                f"a [drift] action other than alert {needs}: the evidence is about the model that "
                "the action replaces; remove one of them"
            )
        return self

    def with_labels(self, field: str | None, topic: str | None) -> Config:
        """The same configuration for records with the label in this field, or in this topic."""
        given = self.input.model_copy(update={"label": field, "labels": topic})
        return self.model_copy(update={"input": given})

    @property
    def predictions_topic(self) -> str:
        """Topic of the predictions."""
        return self.output.predictions or f"{self.name}-predictions"

    @property
    def dead_letters_topic(self) -> str:
        """Topic of the dead letters."""
        return self.output.dead_letters or f"{self.name}-dead-letters"

    @property
    def journal_topic(self) -> str:
        """Topic of the journal."""
        return self.journal.topic or f"{self.name}-journal"

    @property
    def mix_topic(self) -> str:
        """Topic of the statistics that the shards exchange, if they do."""
        return f"{self.name}-mix"

    @property
    def own_topics(self) -> dict[str, int]:
        """The topics with one partition for each shard, which a replay needs as a whole."""
        mixes = () if self.scale.mix is None else (self.mix_topic,)
        return dict.fromkeys((self.journal_topic, *mixes), self.scale.shards)

    @property
    def input_topics(self) -> list[str]:
        """The topics that are consumed: observations, then labels if configured."""
        return [t for t in (self.input.observations, self.input.labels) if t is not None]

    @property
    def topics(self) -> dict[str, str]:
        """Every topic by the key that names it, inputs first."""
        roles = dict(
            zip(("[input] observations", "[input] labels"), self.input_topics, strict=False)
        )
        roles["[output] predictions"] = self.predictions_topic
        roles["[output] dead_letters"] = self.dead_letters_topic
        roles["[journal] topic"] = self.journal_topic
        if self.scale.mix is not None:
            roles["[scale] mix"] = self.mix_topic
        return roles

    def identity(self) -> dict[str, Any]:
        """What the model depends on, as JSON values; written into the journal's first record.

        Left out, because they do not change what is learned: where the log is stored
        (`input.transport`), how long the merge waits (`input.max_wait_ms`; the order is journaled),
        what is trusted (`model.trust_pickle`, `model.trust_python`), and how many processes follow
        a shard (`scale.standbys`).
        """
        sections = {"input", "features", "values", "labels", "model", "scale"}
        identity = self.model_dump(mode="json", include=sections)
        for section, key in _NOT_LEARNED:
            del identity[section][key]
        for section, key, switch in _UNUSED:
            part = getattr(self, section)
            if getattr(part, switch) == type(part).model_fields[switch].default:
                del identity[section][key]
        if self.labels.reporter is not None:
            identity["reporters"] = self.reporters.model_dump(mode="json")
        if parser := self.parser:
            identity["input"]["parser"] = parser
        if self.values.missing is not None:
            # Neither the order nor a repetition of the texts changes what is learned.
            identity["values"]["missing"] = sorted(self.values.texts)
        # How often is no part of it, because each mix is journaled.
        identity["scale"]["mix"] = self.scale.mix is not None
        return identity

    def with_settings(self, identity: Mapping[str, Any]) -> Config:
        """This configuration with [model], the relearned keys of [labels], [scale] mix and the
        parser of an identity.

        Whether a pickle or code is trusted is never read from a journal: it stays as it is here.
        """
        waits = {key: identity["labels"][key] for key in RELEARNED_LABELS}
        parser = identity["input"].get("parser", {})
        mixes = identity["scale"]["mix"]
        differ = identity_difference(identity["model"], self.identity()["model"])
        alike = mixes == (self.scale.mix is not None) and parser == self.parser
        labels = self.labels.model_copy(update=waits)
        if not differ and labels == self.labels and alike:
            return self
        trusted = {key: getattr(self.model, key) for key in ("trust_pickle", "trust_python")}
        block = accepted_keys({**identity["model"], **trusted})
        model = ModelConfig.model_validate(block)
        scale = self.scale.model_copy(update={"mix": (self.scale.mix or "1m") if mixes else None})
        own = self.model_copy(update={"model": model, "labels": labels, "scale": scale})
        own._parser = parser
        return own

    @property
    def parser(self) -> dict[str, str]:
        """Name to version of what makes fields from the bytes of a record: what is installed, or
        what the journal names, and the headers that are ignored. Empty if the records have their
        fields."""
        if self._parser is not None:
            return self._parser
        versions, ignored = self.input.versions, sorted(set(self.mail.ignore_headers))
        return versions | ({IGNORED: " ".join(ignored)} if ignored else {})

    @property
    def declared_schema(self) -> Schema | None:
        """[features], or the fields of the format, as a schema; None if it must be inferred.

        Sorted by name, because the order of the columns decides the last bits of a sum, and moving
        a line in the file must not change what is learned.
        """
        kinds = dict(self.features or {})
        if self.input.mail is not None or not kinds:
            kinds |= self.input.fields
        if not kinds:
            return None
        return Schema(tuple(Feature(name, kind) for name, kind in sorted(kinds.items())))

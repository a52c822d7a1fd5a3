"""`headwater check`: all errors that can be found without running the service."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.base.errors import ConfigError, HeadwaterError, UnreadableCodecError
from consumers.commands.findings import Report
from consumers.commands.past import ConfigArgument
from consumers.commands.transport import has_directory, is_absent
from consumers.transports.registry import transport_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from consumers.base.records import Partition
    from consumers.config import Config
    from consumers.snapshots.locate import JournalOrigin
    from consumers.snapshots.store import SnapshotStore
    from consumers.transports.protocol import Log
    from stream.learner.base import Learner

__all__ = ["check", "counted_wrong", "inspect"]

PROBED = 10  # newest records of each input partition; the last offset can be a marker
NUMBERED = 2  # the transaction.version from which a late request ends no later transaction
FEW_CLASSES = 20  # room for fewer is noted, as labels may well have more


def check(
    config: ConfigArgument,
    create: Annotated[bool, typer.Option("--create", help="Create the missing topics.")] = False,
) -> None:
    """Validate a configuration, connect, and list its topics; ends with 2 if there are errors.

    \b
    Example:
      headwater check phishing.toml --create
    """
    from consumers.config import load

    report = Report()
    inspect(load(config), config, report, create=create)
    if report.problems:
        raise ConfigError(f"{counted_wrong(report.problems)} with {config}, shown above")


def counted_wrong(problems: int) -> str:
    """A number of problems as the beginning of a sentence.

    Examples
    --------
    >>> counted_wrong(2)
    '2 things are wrong'
    """
    return f"{problems} {'thing is' if problems == 1 else 'things are'} wrong"


def inspect(settings: Config, config: Path, report: Report, *, create: bool = False) -> None:
    """Add what can be found without running the service."""
    from consumers.config import exposed_secrets

    report.fine("config", f"{config}, name {settings.name}")
    for line in exposed_secrets(config):
        report.note("secrets", line)
    _check_model(settings, report)
    _show_rules(settings, report)
    _check_sources(settings, report)
    _check_registry(settings, report)
    _check_snapshots(settings, report)
    _check_http(settings, report)
    _check_topics(settings, config, create, report)


def _show_keys(learner: Learner, report: Report) -> None:
    """How many keys get a model of their own, of each learner that has one for each key."""
    from stream.keyed import PerKeyNB

    for part in learner.with_parts():
        if isinstance(part, PerKeyNB):
            more = ""
            if part.keys_on_disk:
                more = f", {part.room_in_memory:,} of them in memory, the others on disk"
            elif part.room_for_keys < part.max_keys:
                more = "; fewer max_classes or a larger max_state_bytes leave room for more"
            report.fine(
                "keys",
                f"a model for each value of {part.per}, for up to {part.room_for_keys:,} values"
                f"{more}",
            )


def _check_model(config: Config, report: Report) -> None:
    from consumers.config.auto import DEFAULTS, learner_type
    from consumers.shard.models import (
        build_model,
        challenging,
        check_able,
        check_fields,
        limited,
        mixing_types,
        two_classes_only,
    )
    from stream.data.schema import Schema
    from stream.errors import StreamError

    try:
        learner = build_model(config)
        check_able(config, learner)
        schema = config.declared_schema
        if schema is not None:
            check_fields(config.model, schema)
        classes = limited(config.model, learner, schema or Schema(()))
    except (HeadwaterError, StreamError) as e:
        report.wrong("model", str(e))
    else:
        report.fine("model", learner_type(config.model, DEFAULTS))
        if names := mixing_types(learner):
            report.fine("mix", f"the shards exchange what they learn: {', '.join(names)}")
        if schema is not None:
            _show_keys(learner, report)
        for name in two_classes_only(learner):
            report.note(
                "model",
                f"{name} knows two classes, so there is one for each class (one-vs-rest); if the "
                "labels have two, max_classes = 2 makes a single one",
            )
        chosen = "max_classes" in config.model.model_fields_set
        if classes < (config.model.max_classes if chosen else FEW_CLASSES):
            report.note(
                "model",
                f"max_state_bytes has room for {classes} classes; raise it only if the labels "
                "have more",
            )
        for challenger in config.challenger:
            try:
                rival = challenging(challenger, classes, config.labels.corrections, schema)
            except (HeadwaterError, StreamError) as e:
                report.wrong("challenger", str(e))
            else:
                report.fine("challenger", f"{challenger.name}, {challenger.type}")
                if schema is not None:
                    _show_keys(rival, report)


def _show_rules(config: Config, report: Report) -> None:
    """Show promotion, decision and drift; they were checked when the file was loaded."""
    promotion, rivals = config.promotion, len(config.challenger)
    if promotion.rule == "e_value" and rivals:
        needed = promotion.threshold * rivals
        of = "" if rivals == 1 else f", {promotion.threshold:g} for each of {rivals} challengers"
        report.fine("promotion", f"at an e-value of {needed:g}{of}")
    elif promotion.rule == "e_value":
        report.note("promotion", "there is no [[challenger]] to promote")
    if config.decision.rule is not None:
        reject = config.decision.reject
        among = ", ".join(config.decision.losses or ["the labels"])
        report.fine("decision", among + ("" if reject is None else f", or reject at {reject:g}"))
    if (budget := config.decision.budget) is not None:
        after = f"from {budget.needed:,} labelled records of other labels on, at the earliest"
        share = f"{budget.label!r} for at most {100 * budget.rate:.6g} % of the others"
        report.fine("decision", f"{share}, {after}")
    for monitor in config.drift.rule.monitors:
        report.fine("drift", f"{monitor}: {monitor.action}")
        if monitor.type == "ADWIN" and monitor.on.startswith("feature:"):
            report.note("drift", f"{monitor}: its bound holds for 0 to 1; KSWIN takes any values")


def _check_sources(config: Config, report: Report) -> None:
    if config.input.labels is None and config.input.label is None:
        report.note(
            "labels",
            "neither [input] labels nor [input] label is given: the service will never learn",
        )
    schema = config.declared_schema
    if schema is None:
        report.note("features", "inferred from the first 500 observations at the first start")
        return
    from consumers.shard.models import unused

    report.fine("features", f"{len(schema.fields)} declared")
    for model in (config.model, *config.challenger):
        if (left := unused(model, schema)) is not None:
            report.note("features", left)


def _check_registry(config: Config, report: Report) -> None:
    """Check that the schema registry answers, and which of the topics have a schema. Registers
    nothing."""
    from consumers.commands.wire import translator_of
    from consumers.schemas.client import subject_of

    translator = None if config.registry.url is None else translator_of(config)
    if translator is None or translator.message_topic is not None:
        return
    try:
        for topic in config.input_topics:
            found = translator.newest(topic)
            if found is None:
                report.note("registry", f"no schema under the subject {subject_of(topic)} yet")
            elif found[1].error:
                report.wrong("registry", f"the newest schema of {topic}: {found[1].error}")
            else:
                report.fine("registry", f"{topic} has schema {found[0]}")
    except HeadwaterError as error:
        report.wrong("registry", str(error))


def _check_codecs(config: Config, log: Log, topics: dict[str, int], report: Report) -> None:
    """Check that the oldest and the newest records of each input can be decompressed here."""
    from consumers.base.records import Partition

    for topic in config.input_topics:
        parts = [Partition(topic, n) for n in range(topics.get(topic, 0))]
        try:
            begins, ends = log.beginning_offsets(parts), log.end_offsets(parts)
            newest = {p: max(begins[p], ends[p] - PROBED) for p in parts}
            for _ in log.read(begins, {p: min(begins[p] + 1, ends[p]) for p in parts}):
                pass
            for _ in log.read(newest, ends):
                pass
        except UnreadableCodecError as error:
            report.wrong("codec", str(error))


def _check_journal(config: Config, log: Log, topics: dict[str, int], report: Report) -> None:
    """Check that the journal belongs to this service, and is neither lost nor shortened."""
    from consumers.base.records import Partition
    from consumers.service.journal_end import check_first_start, check_journal
    from consumers.service.partitioning import inputs_of
    from consumers.snapshots.locate import locate
    from consumers.snapshots.store import open_store

    there = all(topic in topics for topic in config.input_topics)
    for number in range(config.scale.shards):
        partition = Partition(config.journal_topic, number)
        of = f"shard {number} " if config.scale.shards > 1 else ""
        store, origin = open_store(config, number), None
        if number < topics.get(config.journal_topic, 0):
            origin = locate(config, log, partition, store)
        if origin is not None:
            end = origin.left.end
            if there:
                check_journal(config, log, partition, inputs_of(config, topics, number), store)
            report.fine(
                "journal", f"{of}of this service, up to position {end}; it continues from there"
            )
            if there:
                _check_inputs(log, inputs_of(config, topics, number), origin, store, report)
        elif there:
            inputs = inputs_of(config, topics, number)
            check_first_start(config, log, number, inputs, store)
            if config.journal_topic in topics:
                report.fine("journal", f"{of}empty: the service has not run yet")
        else:
            _check_left(config, [number], report)


def _check_left(config: Config, numbers: Iterable[int], report: Report) -> None:
    """Check whether the service has run before if its log or an input is missing."""
    from consumers.service.journal_end import check_snapshots
    from consumers.snapshots.store import open_store

    for number in numbers:
        try:
            check_snapshots(config, number, open_store(config, number))
        except HeadwaterError as error:
            report.wrong("journal", str(error))


def _check_inputs(
    log: Log,
    inputs: Sequence[Partition],
    origin: JournalOrigin,
    store: SnapshotStore,
    report: Report,
) -> None:
    """Check that the inputs are the logs that were consumed."""
    from consumers.service.differences import consumed, differences, restarted

    known = consumed(origin, store)
    try:
        seen = differences(log, inputs, *known)
        restarted(seen, known[0])
    except HeadwaterError as e:
        report.wrong("inputs", str(e))
        return
    report.fine("inputs", "the logs that were consumed")
    for partition in seen.added:
        report.note("inputs", f"{partition} was added: it is read from its first record")


def _check_snapshots(config: Config, report: Report) -> None:
    from consumers.snapshots.store import open_store

    try:
        open_store(config)
    except ConfigError as error:
        report.wrong("snapshots", str(error))
    if config.snapshots.copy_to is not None and config.snapshots.key is None:
        report.note(
            "snapshots",
            "anyone who can write to copy_to can replace the model; set [snapshots] key to sign it",
        )
    directory = config.snapshots.directory
    there = directory
    while not os.path.exists(there) and there != there.parent:  # os.path.exists never raises
        there = there.parent
    if not there.is_dir():
        report.wrong("snapshots", f"{there} is not a directory; change [snapshots] directory")
    elif not os.access(there, os.W_OK | os.X_OK):
        report.wrong("snapshots", f"{there} is not writable; change [snapshots] directory")
    else:
        report.fine("snapshots", f"{directory}{'' if there == directory else ' (will be created)'}")


def _check_http(config: Config, report: Report) -> None:
    if not config.http.enabled or config.http.web_config is None:
        return
    from consumers.web.web_config import load_web_config

    try:
        load_web_config(config.http.web_config)
    except ConfigError as error:
        for line in str(error).splitlines():
            report.wrong("http", line)
    else:
        report.fine("http", f"access by {config.http.web_config}")


def _check_topics(config: Config, path: Path, create: bool, report: Report) -> None:
    from consumers.commands.findings import check_meeting
    from consumers.config.load import log_of
    from consumers.service.partitioning import objections

    url = config.input.transport
    if not create and is_absent(url) and has_directory(url):
        # A check must not create an empty log, which opening it would do.
        report.note("transport", f"{url} does not exist yet")
        _report_topics(config, path, {}, report)
        _check_left(config, range(config.scale.shards), report)
        return
    try:
        log = log_of(config)
        try:
            topics = log.topics()
            report.fine("transport", url)
            _check_transactions(log, report)
            if create:
                topics = _create(config, log, topics)
            _report_topics(config, path, topics, report)
            if all(topic in topics for topic in config.topics.values()):
                for objection in objections(config, log):
                    report.wrong("shards", objection)
            _check_codecs(config, log, topics, report)
            check_meeting(config, log, report)
            try:
                _check_journal(config, log, topics, report)
            except HeadwaterError as e:
                report.wrong("journal", str(e))
        finally:
            log.close()
    except HeadwaterError as e:
        report.wrong("transport", str(e))


def _check_transactions(log: Log, report: Report) -> None:
    """Name a broker that can tear or leave open a transaction, whatever its client does right."""
    rules = log.transaction_rules()
    if rules is None:
        return
    if not rules.verified:
        report.note(
            "transactions",
            "Kafka before 3.6 accepts a late record into a transaction that has ended; it then "
            "stays open, and keeps back every reader of committed records (KIP-890); upgrade it",
        )
    if rules.version < NUMBERED:
        report.note(
            "transactions",
            f"transaction.version is {rules.version}: a late request of a producer can end a later "
            "transaction, which loses, tears or publishes its records (KIP-890). The service's "
            "commits are safe from that; those of the inputs' producers need Kafka 4.0 with "
            "transaction.version=2 and a client that speaks it (docs/concepts/exactly-once.md)",
        )
    else:
        report.fine("transactions", f"transaction.version is {rules.version}")


def _create(config: Config, log: Log, topics: dict[str, int]) -> dict[str, int]:
    """Show the missing topics, create them, and list the topics again."""
    shards = config.scale.shards
    # A shard needs a partition of every input, and labels the partition of their observations.
    inputs = [topics[topic] for topic in config.input_topics if topic in topics]
    like_inputs = max(inputs, default=shards) if shards > 1 else 1
    # Predictions have the partitions of the observations; the others need one partition's order.
    spread = dict.fromkeys(config.input_topics, like_inputs) | {
        config.predictions_topic: topics.get(config.input.observations, like_inputs),
        **config.own_topics,
    }
    missing = {t: spread.get(t, 1) for t in config.topics.values() if t not in topics}
    for topic, partitions in missing.items():
        typer.echo(f"create   {topic}: {_partitions(partitions)}")
    for topic, partitions in missing.items():
        log.create_topic(topic, partitions)
    return log.topics()


def _report_topics(config: Config, path: Path, topics: dict[str, int], report: Report) -> None:
    makes = transport_of(config.input.transport).creates_topics
    for role, topic in config.topics.items():
        if topic in topics:
            report.fine(role, f"{topic}, {_partitions(topics[topic])}")
        elif makes and topic not in config.input_topics:
            report.note(role, f"no topic {topic} yet; `headwater run` creates it")
        else:
            report.wrong(
                role,
                f"no topic {topic}; `headwater check {shlex.quote(str(path))} --create` creates it",
            )


def _partitions(n: int) -> str:
    return f"{n} partition" if n == 1 else f"{n} partitions"

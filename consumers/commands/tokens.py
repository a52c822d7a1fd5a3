"""`headwater tokens`: the features with the strongest evidence now, and those of one message.

Rule: names come from the newest observations of the input, because the model keeps none.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.base.counts import printable
from consumers.commands.past import ConfigArgument, JsonOption, Past, ShardOption, past

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from consumers.service.live import LiveShard
    from stream.data.rows import Rows
    from stream.data.schema import Label
    from stream.linear.explained import StrongFeature
    from stream.linear.spam import SpamScorer

__all__ = ["View", "tokens"]

LONGEST = 40  # characters of a name in a table
MOST_NEWEST, MOST_SHOWN = 100_000, 1_000


class View(StrEnum):
    """The views of a message, see `SpamScorer`."""

    WORDS = "words"
    GRAMS = "4-grams"
    PAIRS = "pairs"
    FIELDS = "fields"


TextOption = Annotated[
    str | None,
    typer.Option("--text", metavar="TEXT", help="Explain this message; - reads stdin."),
]
FieldOption = Annotated[
    str | None,
    typer.Option("--field", metavar="NAME", help="The field of TEXT, if there are several."),
]
LabelOption = Annotated[
    str | None,
    typer.Option("--label", help="The label to show evidence for; by default spam."),
]
AgainstOption = Annotated[
    str | None, typer.Option("--against", metavar="LABEL", help="The label to compare with.")
]
ViewOption = Annotated[
    list[View] | None,
    typer.Option("--view", help="Show these views; by default words and fields."),
]
MostOption = Annotated[
    int, typer.Option("--max", "-n", metavar="N", min=1, max=MOST_SHOWN, help="Rows a side.")
]
LeastOption = Annotated[
    float,
    typer.Option("--least", metavar="W", min=0.0, help="Least weight of records of a feature."),
]
NewestOption = Annotated[
    int,
    typer.Option(
        "--newest",
        metavar="N",
        min=1,
        max=MOST_NEWEST,
        help="Find names in the newest N observations.",
    ),
]


def tokens(
    config: ConfigArgument,
    message: TextOption = None,
    field: FieldOption = None,
    label: LabelOption = None,
    against: AgainstOption = None,
    view: ViewOption = None,
    most: MostOption = 20,
    least: LeastOption = 2.0,
    newest: NewestOption = 2_000,
    shard: ShardOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Show the spammiest and the hammiest features of a spam filter, as it is now.

    The model is rebuilt from its newest snapshot and the journal, so the service may run meanwhile.
    The evidence of a feature is its log-odds in a message that has no other one of its view. The
    weight of its records counts older records less. The model keeps no names, so only features of
    the newest observations are shown.

    With --text, or a message on stdin, show the evidence of the features of that message, and the
    sum. With [input] format = "mail" the message is a whole mail.

    \b
    Examples:
      headwater tokens filter.toml
      headwater tokens filter.toml --view pairs --max 50 --json
      headwater tokens filter.toml --text "free prize"
      headwater tokens filter.toml --text - < mail.eml
    """
    from consumers.timetravel.moment import check_format, moment, rebuild_at
    from stream.linear.explained import views_of

    raw = _read(message)
    shown = [View.WORDS, View.FIELDS] if view is None else view
    views = views_of(shown)
    with past(config, shard) as of:
        _check_type(of)
        if raw is None:
            check_format(of.config)
        end = of.log.end_offsets([of.found.journal])[of.found.journal]
        when = moment(of.log, of.found.journal, str(end))
        live = rebuild_at(of.config, of.log, of.found, of.store, when, of.progress)
        scorer, pair = _compared(live, of.config.model.type, label, against)
        head = _head(live, of.config.name, pair)
        if raw is not None:
            rows = _message(live, raw, field)
            document = head | _of_message(scorer, rows, pair, views, most)
        else:
            document = head | _of_newest(of, live, scorer, pair, views, most, least, newest)
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        _show(document, pair, most)


def _read(message: str | None) -> bytes | None:
    """The bytes of --text; None without it."""
    if message == "-":
        return sys.stdin.buffer.read()
    return None if message is None else message.encode("utf-8", "surrogateescape")


def _unfit(kind: str) -> Exception:
    from consumers.base.errors import ConfigError

    return ConfigError(
        f'tokens reads the features of [model] type = "spam" (SpamScorer), and not of {kind}; '
        "`[output] explain` and `headwater audit` explain predictions of other types"
    )


def _check_type(of: Past) -> None:
    """Refuse another model before a replay, which may take long."""
    from consumers.shard.models import build
    from stream.linear.spam import SpamScorer

    kind = of.config.model.type
    if of.config.challenger:  # the champion may be another model
        return
    if ":" in kind or not isinstance(build(of.config.model), SpamScorer):
        raise _unfit(kind)


def _compared(
    live: LiveShard, kind: str, label: str | None, against: str | None
) -> tuple[SpamScorer, tuple[Label, Label]]:
    """The champion, and the two labels to compare.

    Raises
    ------
    ConfigError
        It is of another type, or knows too few labels, or not these.
    """
    from consumers.base.errors import ConfigError
    from stream.decision.risk import named
    from stream.linear.spam import SpamScorer

    scorer, budget = live.shard.champion_learner, live.shard.spec.budget
    if not isinstance(scorer, SpamScorer):
        raise _unfit(kind)
    by_name = {named(each): each for each in scorer.classes}
    if len(by_name) < 2:
        known = ", ".join(by_name) or "none"
        raise ConfigError(
            f"evidence compares two labels, and the model has learned {known}; send labels of both"
        )
    for option, given in (("--label", label), ("--against", against)):
        if given is not None and given not in by_name:
            known = ", ".join(map(repr, by_name))
            raise ConfigError(f"{option} expects a learned label ({known}), got {given!r}")
    likely = [budget.label if budget else None, "spam", *by_name]
    first = label or next(name for name in likely if name in by_name and name != against)
    second = against or next(name for name in by_name if name != first)
    if first == second:
        raise ConfigError(f"--against expects another label than {first!r}")
    return scorer, (by_name[first], by_name[second])


def _head(live: LiveShard, name: str, pair: tuple[Label, Label]) -> dict[str, Any]:
    """Which model it is."""
    return {
        "model": live.shard.champion or name,
        "learned": live.shard.learned,
        "position": live.position,
        "label": pair[0],
        "against": pair[1],
    }


def _of_newest(
    of: Past,
    live: LiveShard,
    scorer: SpamScorer,
    pair: tuple[Label, Label],
    views: Sequence[int],
    most: int,
    least: float,
    newest: int,
) -> dict[str, Any]:
    """The strongest features on both sides."""
    from consumers.timetravel.moment import newest as read
    from stream.linear.explained import strongest

    rows = read(of.log, of.found, live, newest)
    found = strongest(scorer, rows, most, *pair, views=views, least=least)
    return {
        "observations": len(rows),
        "compared": found.compared,
        "for": [_document(each) for each in found.towards],
        "opposed": [_document(each) for each in found.against],
    }


def _document(feature: StrongFeature) -> dict[str, Any]:
    from stream.linear.explained import VIEW_NAMES

    named = feature.named
    return {
        "field": named.field,
        "view": VIEW_NAMES[named.view],
        "name": named.written,
        "log_odds": feature.log_odds,
        "records": list(feature.records.items()),
    }


def _message(live: LiveShard, raw: bytes, field: str | None) -> Rows:
    """A message as the one row of an observation.

    Raises
    ------
    ConfigError
        It cannot be decoded, or it is not known which field it is.
    """
    from base64 import b64encode

    import msgspec

    from consumers.base.errors import ConfigError
    from consumers.codecs.registry import wire_format

    spec = live.shard.spec
    if wire_format(spec.wire).fields is not None:
        seen = spec.decoder(live.shard.schemas).decode([b"-"], [raw])
    else:
        if spec.mail_field is not None:
            name, value = spec.mail_field, b64encode(raw).decode()
        else:
            texts = [each.name for each in spec.schema.fields if each.kind == "text"]
            name = _field(texts, field)
            value = raw.decode("utf-8", "replace")
        seen = spec.decoder().decode([b"-"], [msgspec.json.encode({name: value})])
    for error in seen.rejected.values():
        raise ConfigError(f"--text cannot be read as an observation: {error.detail}")
    return seen.rows


def _field(texts: Sequence[str], given: str | None) -> str:
    from consumers.base.errors import ConfigError

    if given is None and len(texts) == 1:
        return texts[0]
    known = ", ".join(texts)
    if not texts:
        raise ConfigError("--text needs a field of kind text; declare one in [features]")
    if given is None or given not in texts:
        raise ConfigError(f"--field expects the text that is meant, one of {known}, got {given!r}")
    return given


def _of_message(
    scorer: SpamScorer, rows: Rows, pair: tuple[Label, Label], views: Sequence[int], most: int
) -> dict[str, Any]:
    """The features of a message by their evidence, and what its parts add to the log-odds."""
    from stream.linear.explained import strongest

    found = strongest(scorer, rows, most, *pair, views=views)
    why = scorer.explain_rows(rows, *pair)
    return {
        "observations": 1,
        "compared": found.compared,
        "for": [_document(each) for each in found.towards],
        "opposed": [_document(each) for each in found.against],
        "log_odds": why.log_odds,
        "contributions": why.top(len(why.contributions)),
    }


def _show(document: Mapping[str, Any], pair: tuple[Label, Label], most: int) -> None:
    """Print the document as tables."""
    from math import exp

    from rich.console import Console

    from consumers.base.counts import counted
    from stream.decision.risk import named

    label, against = (printable(named(each)) for each in pair)
    typer.echo(
        f"{document['model']}: {document['learned']:,} labels learned; {document['compared']:,} "
        f"features of {counted(document['observations'], 'observation')}"
    )
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200, highlight=False)
    if "log_odds" in document:
        odds = document["log_odds"]
        share = 1 / (1 + exp(-odds)) if odds > -700 else 0.0
        typer.echo(f"log-odds of {label} against {against}: {odds:+.3f} (probability {share:.4f})")
        console.print(_sums(document["contributions"][:most]))
    for title, side in ((label, document["for"]), (against, document["opposed"])):
        if side:
            console.print(_table(f"for {title}", side))
        else:
            typer.echo(f"\nno feature is evidence for {title}")


def _named(text: str) -> str:

    shown = printable(text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _sums(contributions: Sequence[tuple[str, float]]) -> Table:
    """What each part of a message adds."""
    from rich.text import Text

    from consumers.commands.tables import table_of

    table = table_of("part of the message", "adds")
    for name, share in contributions:
        table.add_row(Text(_named(name)), f"{share:+.3f}")
    return table


def _table(title: str, side: Sequence[Mapping[str, Any]]) -> Table:
    """Features with evidence and weight of records."""
    from rich.text import Text

    from consumers.commands.tables import table_of
    from stream.decision.risk import named

    classes = [_named(named(label)) for label, _ in side[0]["records"]]
    table = table_of(title, "log-odds", "view", "field", *(f"{name} records" for name in classes))
    for each in side:
        weights = (f"{weight:,.1f}" for _, weight in each["records"])
        cells = (f"{each['log_odds']:+.3f}", each["view"], Text(_named(each["field"])), *weights)
        table.add_row(Text(_named(each["name"])), *cells)
    return table

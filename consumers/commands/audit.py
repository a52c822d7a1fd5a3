"""`headwater audit`: make one prediction again."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.commands.past import ConfigArgument, JsonOption, ShardOption, past

if TYPE_CHECKING:
    from pathlib import Path

    from consumers.base.records import Outgoing
    from consumers.config import Config
    from consumers.timetravel.audit import Audit

__all__ = ["audit"]

MOST_OTHERS = 5  # listed predictions of the same id


def audit(
    config: ConfigArgument,
    observation: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="The observation: its id, or TOPIC:PARTITION:OFFSET[:INDEX]."
        ),
    ],
    shard: ShardOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Rebuild the model as it was just before a prediction, and make that prediction again.

    Shows the explanation of the prediction. Ends with 0 if the prediction is the same, byte for
    byte, and with 1 if it is not.

    \b
    Examples:
      headwater audit visits.toml 1249
      headwater audit visits.toml visits:0:1249 --json
    """
    from consumers.timetravel.audit import audit as repeated

    with past(config, shard) as of:
        found = repeated(of.config, of.log, of.found, of.store, observation, of.progress)
        results = _results(found, of.config)
    if as_json:
        sys.stdout.write(json.dumps(results, ensure_ascii=False) + "\n")
    else:
        _show(results, config)
    if not found.same:
        raise typer.Exit(1)


def _results(found: Audit, config: Config) -> dict[str, Any]:
    from consumers.codecs.registry import prediction_as_json
    from consumers.schemas.translate import Translator

    def decoded(record: Outgoing) -> Any:
        return json.loads(prediction_as_json(config.input.format, record.value or b"null"))

    again = decoded(found.again)
    explained = None if found.explained is None else decoded(found.explained)
    published = found.published
    return {
        "prediction": again,
        "entry": found.entry.seq,
        "clock": found.entry.now,
        "published": None
        if published is None
        else {
            "topic": published.topic,
            "partition": published.partition,
            "offset": published.offset,
            "value": Translator(config)
            .as_json(published.value or b"")
            .decode("utf-8", "backslashreplace"),
        },
        "same": found.same,
        "others": list(found.others),
        "explanation": None if explained is None else explained.get("explanation"),
    }


def _show(results: dict[str, Any], file: Path) -> None:
    from consumers.timetravel.moment import clock
    from stream.decision.risk import named

    made = results["prediction"]
    at, model = made["position"], made["model"]
    row = f" row {at['index']}" if "index" in at else ""
    typer.echo(
        f"{made['id']}: {at['topic']}[{at['partition']}] offset {at['offset']}{row}, in journal "
        f"record {results['entry']} ({clock(results['clock'])})"
    )
    typer.echo(f"model     {model['name']} ({model['type']}), {model['learned']:,} labels learned")
    shares = ", ".join(f"{named(label)} {p:.6g}" for label, p in made["probabilities"])
    what = f"{named(made['prediction'])} ({shares})"
    if made["prediction"] is None:  # with silence, also before its label was learned
        why = "the label of silence was not learned" if model["learned"] else "no label was learned"
        what = f"nothing: {why} yet"
    typer.echo(f"predicted {what}")
    if evidence := made.get("evidence"):
        said = ", ".join(f"{named(label)} {odds:+.6g}" for label, odds in evidence)
        typer.echo(f"evidence  {said}")
    why = results["explanation"]
    if why is not None:
        typer.echo(f"because   log-odds against {named(why['against'])}: {why['log_odds']:.6g}")
        for name, share in why["top"]:
            typer.echo(f"          {share:+.6g}  {name}")
    _show_others(results["others"], file)
    published = results["published"]
    if published is None:
        typer.echo("record    no longer in the predictions topic, so it was not compared")
    elif results["same"]:
        typer.echo(
            f"record    {published['topic']}[{published['partition']}] offset "
            f"{published['offset']}: the same, byte for byte"
        )
    else:
        typer.echo(f"record    differs; in the topic: {published['value']}")
        typer.echo(f"                   made again:   {json.dumps(made)}")


def _show_others(others: list[str], file: Path) -> None:
    """Report that the id was sent more than once, and how to audit the other predictions."""
    if not others:
        return
    predictions = "prediction has" if len(others) == 1 else "predictions have"
    typer.echo(f"others    {len(others):,} more {predictions} this id; audit each by its position:")
    for place in others[:MOST_OTHERS]:
        typer.echo(f"          headwater audit {shlex.quote(str(file))} {place}")
    if len(others) > MOST_OTHERS:
        typer.echo(f"          and {len(others) - MOST_OTHERS:,} more; --json lists all of them")

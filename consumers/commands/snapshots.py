"""`headwater snapshots`: list, verify, export and sign the snapshots of a service.

Rule: only `sign` changes a file, so the others can run while the service runs. A snapshot is
verified as at a start before it is shown. `list` and `verify` also compare it with the journal, as
a start does; if the log cannot be reached, they report that they did not.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.commands.past import ConfigArgument, ShardOption, check_shard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from consumers.base.records import Partition
    from consumers.config import Config
    from consumers.shard.shard import Shard
    from consumers.shard.views import ShardView
    from consumers.snapshots.format import SnapshotInfo
    from stream.data.state import State

__all__ = ["Action", "snapshots"]


class Action(StrEnum):
    """The actions."""

    LIST = "list"
    SHOW = "show"
    VERIFY = "verify"
    EXPORT = "export"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Found:
    """A file and its content.

    `bad` is its fault; `unused` the reason why a start skips it although it is valid; `positions`
    are those of the inputs, after loading; `compared` is whether it was compared with the journal.
    """

    path: Path
    position: int
    size: int
    about: SnapshotInfo | None = None
    bad: str | None = None
    unused: str | None = None
    positions: Mapping[Partition, int] | None = None
    compared: bool = False

    @property
    def refused(self) -> str | None:
        """Why a start skips it; None if a start would use it."""
        return self.bad or self.unused

    @property
    def state(self) -> str:
        """Its state as a word."""
        return "bad" if self.bad else "unused" if self.unused else "ok"


def snapshots(
    named: Annotated[
        str,
        typer.Argument(metavar="ACTION", help="list, show, verify, export or sign."),
    ],
    config: ConfigArgument,
    position: Annotated[
        int | None,
        typer.Argument(
            metavar="POSITION",
            help="Journal position, for show and export; show: by default the newest.",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file to export to.")
    ] = None,
    shard: ShardOption = 0,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON; with export: write the header to FILE.json too."),
    ] = False,
) -> None:
    """List, show, verify, export or sign the snapshots on this host.

    list shows for each snapshot whether a start would load it: ok, bad, or unused, with the reason.
    For this it compares them with the journal. If the log cannot be reached, one line reports that
    only the files were checked. show prints the content of one. verify loads each one into the
    configured model and ends with 1 if one is bad. export copies one to FILE. sign signs those
    without a signature by [snapshots] key; check first that you trust them.

    \b
    Examples:
      headwater snapshots list visits.toml
      headwater snapshots show visits.toml 1042 --json
      headwater snapshots verify visits.toml
      headwater snapshots export visits.toml 1042 before-release.hws
    """
    from consumers.base.errors import ConfigError
    from consumers.config import load

    if named not in set(Action):
        raise ConfigError(f"expected {', '.join(Action)} as ACTION, got {named!r}")
    action = Action(named)
    if (file is not None) != (action is Action.EXPORT) or (
        position is not None and action in (Action.LIST, Action.VERIFY, Action.SIGN)
    ):
        wanted = {Action.SHOW: " CONFIG [POSITION]", Action.EXPORT: " CONFIG POSITION FILE"}
        given = " ".join(str(each) for each in (position, file) if each is not None)
        raise ConfigError(
            f"expected `headwater snapshots {action}{wanted.get(action, ' CONFIG')}`, got "
            f"{given or 'nothing'} after CONFIG"
        )
    settings = load(config)
    check_shard(settings, shard)
    if action is Action.LIST:
        found = _compared(settings, shard)
        _list(found, as_json) if found or as_json else typer.echo(_none(settings, shard))
    elif action is Action.SIGN:
        _sign(settings, shard)
    elif action is Action.VERIFY:
        found = _compared(settings, shard)
        _verify(found, as_json) if found or as_json else typer.echo(_none(settings, shard))
    else:
        chosen = _chosen(settings, shard, position)
        if action is Action.SHOW:
            _show(settings, chosen, as_json)
        elif file is not None:
            _export(chosen, file, as_json)


def _found(config: Config, shard: int, *, loaded: bool) -> list[Found]:
    """Every snapshot of the shard, the newest first; `loaded`: into the configured model too."""
    from consumers.base.errors import HeadwaterError
    from consumers.snapshots.store import SnapshotStore, home, read
    from stream.errors import StreamError

    base = SnapshotStore(home(config, shard))
    out = []
    for place, path in ((s, p) for s in [base, *base.parts()] for p in s.paths()):
        known: dict[str, Any] = {"path": path, "position": int(path.stem[5:])}
        known["size"] = path.stat(follow_symlinks=False).st_size
        try:
            known["about"], state = read(place.local, path.name, config.snapshots.key)
            known["unused"] = _belongs(config, known["about"], path)
            if loaded:
                known["positions"] = dict(
                    _loaded(config, known["about"], state, path.parent).positions
                )
        except (HeadwaterError, StreamError, KeyError, TypeError, ValueError) as error:
            known["bad"] = " ".join(str(error).split())
        out.append(Found(**known))
    return sorted(out, key=lambda found: (-found.position, str(found.path)))


def _compared(config: Config, shard: int) -> list[Found]:
    """Every snapshot, loaded and compared with the journal; a line if that was not possible."""
    found = _found(config, shard, loaded=True)
    if not found:
        return found
    compared, missing = _with_journal(config, shard, found)
    if missing is not None:
        why = f"only the files were checked, not whether the journal continues from them: {missing}"
        typer.echo(f"headwater: {why}", err=True)
    return compared


def _with_journal(config: Config, shard: int, found: list[Found]) -> tuple[list[Found], str | None]:
    """The snapshots after the checks of a start, and why these were not possible, or None."""
    from consumers.base.errors import HeadwaterError
    from consumers.commands.transport import is_absent
    from consumers.config.load import log_of
    from consumers.service.recovery import refusals
    from consumers.snapshots.store import open_store
    from consumers.transports.registry import transport_of

    url = config.input.transport
    if transport_of(url).private:
        return found, f"{url} is visible in its own process only"
    if is_absent(url):
        return found, f"{url} does not exist"
    out = []
    try:
        with contextlib.closing(log_of(config)) as log:
            refusal = refusals(config, log, open_store(config, shard), shard)
            for one in found:
                if one.about is not None and one.positions is not None:
                    unused = refusal(one.about, one.positions)
                    out.append(replace(one, unused=unused, compared=True))
                else:
                    out.append(one)
    except HeadwaterError as error:
        return found, " ".join(str(error).split())
    return out, None


def _sign(config: Config, shard: int) -> None:
    """Sign valid snapshots without a signature."""
    from consumers.base.errors import ConfigError, SnapshotError
    from consumers.snapshots.format import parts_of
    from consumers.snapshots.store import SnapshotStore, home, read

    key = config.snapshots.key
    if key is None:
        raise ConfigError("expected [snapshots] key, got none; set it to sign with it")
    base, signed = SnapshotStore(home(config, shard)), 0
    with contextlib.ExitStack() as held:
        for store in [base, *base.parts()]:
            held.enter_context(store.locked())  # a running service writes here too
            for path in store.paths():
                with contextlib.suppress(SnapshotError):  # damaged, or signed already
                    about, state = read(store.local, path.name)
                    store.local.write(path.name, parts_of(about, state, key))
                    signed += 1
    typer.echo(f"{signed} snapshots signed in {base.directory}")


def _belongs(config: Config, about: SnapshotInfo, path: Path) -> str | None:
    """Check that it belongs to this service; else SnapshotError. Returns why a start with the
    present settings does not use it, which `headwater relearn` or `reshard` may have changed."""
    from consumers.base.errors import SnapshotError
    from consumers.config import identity_difference, relearnable
    from consumers.journal.records import mark_of

    if about.name != config.name:
        raise SnapshotError(f"of another service, {about.name}")
    if mark_of(about.entry) != about.identity or about.identity[:16] != path.parent.name:
        raise SnapshotError("of another journal than its directory's")
    different = identity_difference(about.entry.identity, config.identity())
    if not relearnable([line for line in different if not line.startswith("scale.shards:")]):
        raise SnapshotError(f"of another configuration ({'; '.join(different)})")
    return f"of other settings ({'; '.join(different)})" if different else None


def _loaded(config: Config, about: SnapshotInfo, state: State, directory: Path) -> Shard:
    """The configured shard with this state; SnapshotError or StateError if it does not fit. Keys
    that are not in the state are read from a file in the directory."""
    from consumers.base.errors import SnapshotError
    from consumers.journal.records import defaults_of
    from consumers.shard.assembly import shard_of, with_settings
    from consumers.snapshots.key_files import give_keys
    from stream.data.schema import Field, Schema

    fields = (Field(name, kind) for name, kind in about.entry.fields)  # type: ignore[arg-type]
    schema, defaults = Schema(tuple(fields)), defaults_of(about.entry)
    config = with_settings(config, about.entry.identity, defaults)
    shard = shard_of(config, schema, number=about.shard, defaults=defaults)
    give_keys(shard, None, directory)
    shard.load_state(state)
    found = state if shard.pickled or about.keys is not None else shard
    if found.fingerprint() != about.fingerprint:
        raise SnapshotError("the loaded model and the saved one have different fingerprints")
    return shard


def _none(config: Config, shard: int) -> str:
    """The error without snapshots; it names the directory, which is probably another one."""
    from consumers.snapshots.store import home

    return f"no snapshots in {home(config, shard)}; `headwater run` writes them"


def _chosen(config: Config, shard: int, position: int | None) -> Found:
    from consumers.base.errors import ConfigError, SnapshotError
    from consumers.snapshots.store import home

    found = _found(config, shard, loaded=False)
    if position is None:
        of_it = [one for one in found if one.refused is None] or found
    else:
        of_it = [one for one in found if one.position == position]
    if not found:
        raise ConfigError(_none(config, shard))
    if not of_it:
        have = ", ".join(str(one.position) for one in found[:10])
        raise ConfigError(
            f"no snapshot at position {position} in {home(config, shard)}; positions are {have}"
        )
    # If journals of one name have snapshots at the same position, the usable one.
    chosen = min(of_it, key=lambda one: one.refused is not None)
    if chosen.about is None:
        raise SnapshotError(f"{chosen.path}: {chosen.refused}; choose an older one")
    return chosen


def _list(found: list[Found], as_json: bool) -> None:
    rows = [_row(one) for one in found]
    if as_json:
        _print(rows)
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("position", "journal", "entry", "clock", "size", "age"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state")
    for row in rows:
        at, size = str(row["position"]), f"{row['size']:,}"
        cells = [at, "-", "-", "-", size, "-"]
        if row["clock"] is not None:
            age = _age(row["age_seconds"])
            cells = [at, row["journal"][:8], str(row["entry"]), row["clock"], size, age]
        state = "ok" if row["compared"] else "file ok"
        state = state if row["refused"] is None else f"{row['state']}: {row['refused']}"
        table.add_row(*cells, Text(state))
    width = None if sys.stdout.isatty() else 200
    Console(file=sys.stdout, width=width, highlight=False).print(table)


def _row(found: Found) -> dict[str, Any]:
    """A snapshot as one row of the list."""
    about = found.about
    age = None if about is None else max(0, round(time.time() - about.now / 1000))
    return {
        "position": found.position,
        "journal": None if about is None else about.identity,
        "entry": None if about is None else about.seq,
        "clock": None if about is None else _utc(about.now),
        "size": found.size,
        "age_seconds": age,
        "state": found.state,
        "refused": found.refused,
        "compared": found.compared,
        "file": str(found.path),
    }


def _verify(found: list[Found], as_json: bool) -> None:
    from consumers.base.errors import SnapshotError

    kept = ("position", "journal", "state", "refused", "compared")
    rows = [{k: v for k, v in _row(one).items() if k in kept} for one in found]
    if as_json:
        _print(rows)
    else:
        for row in rows:
            typer.echo(f"{row['state']:7} {row['position']}", nl=False)
            typer.echo(f"  {row['refused']}" if row["refused"] else "")
    counts = Counter(row["state"] for row in rows)
    if counts["bad"]:
        raise SnapshotError(
            f"{counts['bad']} of {len(rows)} snapshots are bad; a start skips them; delete "
            "the damaged ones"
        )
    if not as_json:
        snapshots = f"{len(rows)} snapshot{'s' if len(rows) > 1 else ''}"
        unused = counts["unused"]
        typer.echo(
            f"{snapshots}, {unused} of them valid but not used by a start"
            if unused
            else f"{snapshots}, all {'good' if rows[0]['compared'] else 'files good'}"
        )


def _show(config: Config, found: Found, as_json: bool) -> None:
    """The header, and the content that the configured model can load."""
    from consumers.base.errors import HeadwaterError
    from consumers.snapshots.places import Directory
    from consumers.snapshots.store import read
    from stream.errors import StreamError

    header = _header(found)
    try:
        about, state = read(Directory(found.path.parent), found.path.name, config.snapshots.key)
        header |= _known(_loaded(config, about, state, found.path.parent).view())
    except (HeadwaterError, StreamError, KeyError, TypeError, ValueError) as error:
        header["refused"] = header["refused"] or " ".join(str(error).split())
    if as_json:
        _print(header)
        return
    for key, value in header.items():
        shown = json.dumps(value, ensure_ascii=True) if isinstance(value, dict | list) else value
        typer.echo(f"{key:14} {'-' if shown is None else shown}")


def _header(found: Found) -> dict[str, Any]:
    from consumers.snapshots.locate import difference

    about = found.about
    if about is None:
        raise AssertionError("only what could be read is shown")
    return {
        **_row(found),
        "name": about.name,
        "shard": about.shard,
        "identity": about.identity,
        "configuration": about.entry.identity,
        "versions": about.versions,
        "cpu": about.cpu,
        "differs_here": difference(about),
        "fingerprint": about.fingerprint,
    }


def _known(view: ShardView) -> dict[str, Any]:
    scores = view.quality.scores["all"]
    return {
        "classes": list(view.quality.classes),
        "observations": view.observations,
        "predictions": view.predictions,
        "learned": view.learned,
        "pending": view.pending,
        "dead_letters": view.dead_letters,
        "accuracy": scores.accuracy,
        "log_loss": scores.log_loss,
        "positions": {str(p): at for p, at in sorted(view.positions.items())},
    }


def _export(found: Found, file: Path, as_json: bool) -> None:
    from consumers.base.errors import ConfigError, SnapshotError
    from consumers.snapshots.places import Directory

    header = file.with_name(file.name + ".json")
    for path in [file, *([header] if as_json else [])]:
        if path.exists() or path.is_symlink():
            raise ConfigError(f"{path} exists; choose another name, or remove it first")
    if found.refused is not None:
        raise SnapshotError(f"{found.path}: {found.refused}; choose another one")
    if found.about is not None and found.about.keys is not None:
        raise SnapshotError(
            f"{found.path}: its keys are in a file beside it; copy the whole directory of a "
            "stopped service, or write a model file with `headwater export`"
        )
    # Copy the bytes; the target is read again and compared.
    data = Directory(found.path.parent).read(found.path.name)
    target = Directory(file.parent)
    target.write(file.name, [data])
    if as_json:
        target.write(header.name, [json.dumps(_header(found), indent=2).encode() + b"\n"])
    typer.echo(f"{file}: position {found.position}, {len(data):,} bytes, verified")


def _print(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _utc(ms: int) -> str:
    """A journaled clock as text.

    Examples
    --------
    >>> _utc(1_700_000_000_000)
    '2023-11-14T22:13:20Z'
    """
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"


def _age(seconds: int) -> str:
    """An age in the two largest units.

    Examples
    --------
    >>> _age(42), _age(3_700), _age(90_000)
    ('42s', '1h 1m', '1d 1h')
    """
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // part}{smaller}"
    return f"{seconds // 60}m {seconds % 60}s" if seconds >= 60 else f"{seconds}s"

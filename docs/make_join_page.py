"""Writes docs/join.md from stream/join/transitions.py: `python docs/make_join_page.py`."""

from __future__ import annotations

import inspect
import re
import sys
from enum import Enum
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from stream.join import transitions
from stream.join.transitions import IdEvent, IdState, JoinAction, Table, Transition, table

PAGE = Path(__file__).with_name("join.md")
HEAD = """# How labels meet observations

This page is generated from `stream/join/transitions.py`, which the code runs.
The [decisions](decisions/join.md#the-join-is-a-table-of-transitions) have the reason for a table.

"""
LEGEND = """## Transitions

Each row is an event, each column a state of the id. A cell gives the actions, *the outcomes that
are counted* (`headwater_labels_total`), and the state that follows if it changes. An empty cell
cannot occur.

"""
CHANGES = """## With corrections

With `[labels] corrections`, these cells differ: the row of a learned label is kept, so that another
label can replace it.

{corrections}

## While labels are held back

While the dead-letter breaker is open, these cells differ: nothing is learned.

{held_back}
"""


def page() -> str:
    """The whole page."""
    about = inspect.getdoc(transitions) or ""
    _, rest = about.split("\n\n", 1)
    theory = rest.split("\n\n`table` gives")[0]
    plain = table()
    return (
        f"{HEAD}{theory}\n\n## Events\n\n{_meanings(IdEvent)}\n\n"
        f"## Actions\n\n{_meanings(JoinAction)}\n\n{LEGEND}{_grid(plain)}\n\n"
        + CHANGES.format(
            corrections=_differences(plain, table(corrections=True)),
            held_back=_differences(plain, table(held_back=True)),
        )
    )


def _meanings(kind: type[Enum]) -> str:
    """Each member with its comment."""
    source = re.sub(r"\n +# ", " ", inspect.getsource(kind))  # some comments have two lines
    comments = dict(re.findall(r"^    ([A-Z_]+) = .*?(?:  # (.*))?$", source, re.MULTILINE))
    lines = [f"| {_name(m)} | {comments[m.name].replace('`', '')} |" for m in kind]
    return "\n".join(
        [f"| {'event' if kind is IdEvent else 'action'} | meaning |", "|---|---|", *lines]
    )


def _grid(rules: Table) -> str:
    """A row an event, a column a state: there are more events, and a page is longer than wide."""
    lines = ["| | " + " | ".join(state.name for state in IdState) + " |", "|---|" + "---|" * 7]
    for event in IdEvent:
        cells = [_cell(state, rules[state].get(event)) for state in IdState]
        lines.append(f"| **{_name(event)}** | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _differences(plain: Table, other: Table) -> str:
    """The cells of the other table that are not those of the plain one."""
    lines = ["| state | event | instead |", "|---|---|---|"]
    for state, row in other.items():
        for event, transition in row.items():
            if transition != plain[state][event]:
                lines.append(f"| {state.name} | {_name(event)} | {_cell(state, transition)} |")
    return "\n".join(lines)


def _cell(state: IdState, transition: Transition | None) -> str:
    if transition is None:
        return ""
    parts = [", ".join(_name(action) for action in transition.actions)]
    if transition.outcomes:
        parts.append("*" + ", ".join(f"`{o}`" for o in transition.outcomes) + "*")
    if transition.then is not state:
        parts.append(f"→ {transition.then.name}")
    return "<br>".join(parts)


def _name(member: Enum) -> str:
    return member.name.lower().replace("_", " ")


if __name__ == "__main__":
    PAGE.write_text(page())

"""The table learner × law: `python -m stream.checks [LEARNER …]`. Exit code 1 if a law is
broken."""

from __future__ import annotations

import sys

from stream.checks import FAMILIES
from stream.checks.streams import Law
from stream.learner.base import Learner
from stream.learner.registry import learners

__all__ = ["main", "shipped", "table"]


def shipped() -> list[Learner]:
    """One of each learner, with its default parameters.

    Examples
    --------
    >>> from stream.checks.__main__ import shipped
    >>> "GaussianNB" in [type(learner).__name__ for learner in shipped()]
    True
    """
    return [kind() for kind in learners().values()]


def table(learners: list[Learner]) -> tuple[list[str], bool]:
    """Markdown lines: a row for each law, a column for each learner, the reasons below. Also
    whether all laws hold."""
    names = [type(learner).__name__ for learner in learners]
    lines = ["| law | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    reasons: dict[tuple[str, str], int] = {}
    broken: list[str] = []
    for law in (law for family in FAMILIES for law in family.LAWS):
        cells = []
        for learner, name in zip(learners, names, strict=True):
            why = learner.not_applicable.get(law.__name__)
            if why is not None:
                cells.append(f"n/a ({reasons.setdefault((name, why), len(reasons) + 1)})")
                continue
            broken_by = _outcome(law, learner)
            cells.append(broken_by or "holds")
            broken += [f"{name} breaks {law.__name__}: {broken_by}"] if broken_by else []
        lines.append(f"| {law.__name__.replace('_', ' ')} | " + " | ".join(cells) + " |")
    lines += ["", *(f"({i}) {name}: {why}.  " for (name, why), i in reasons.items())]
    return lines, not broken


def _outcome(law: Law, learner: Learner) -> str:
    """Empty if the law holds, otherwise how it is broken."""
    try:
        law(learner)
    except Exception as error:  # the table continues after any error
        return f"BROKEN: {type(error).__name__}: {error}"
    return ""


def main(arguments: list[str]) -> int:
    """Print the table of the given learners, or of all."""
    learners = [c for c in shipped() if not arguments or type(c).__name__ in arguments]
    lines, whole = table(learners)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

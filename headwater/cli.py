"""The program `headwater`: the commands of the service, and those that ask a running one.

Rule: `classify` ends with a verdict or with 3, whatever happens before it runs. Another exit code
would be a verdict that nobody gave.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from consumers.cli import COMMANDS as SERVICE
from consumers.cli import Commands, prepare_process
from consumers.cli import main as run

__all__ = ["COMMANDS", "MORE", "main"]

MORE: Final[Commands] = {
    "classify": (
        "Add a spam filter's verdict to a mail on stdin.",
        "headwater.commands.classify",
    ),
    "learn": (
        "Teach a running service mails that are spam or ham.",
        "headwater.commands.learn",
    ),
}
COMMANDS: Final = {**SERVICE, **{name: summary for name, (summary, _) in MORE.items()}}
STDIN = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    if arguments is None:
        prepare_process()
    given = sys.argv[1:] if arguments is None else list(arguments)
    asked = next((argument for argument in given if not argument.startswith("-")), None)
    if asked == "learn":
        given = _with_stdin(given)
    code = run(given, MORE)
    if asked == "classify" and code:
        from headwater.commands.classify import FAILED, failed_before

        return FAILED if failed_before(given) else code
    return code


def _with_stdin(given: Sequence[str]) -> list[str]:
    """`--spam` and `--ham` without a place are those of stdin.

    Examples
    --------
    >>> _with_stdin(["learn", "--spam"]), _with_stdin(["learn", "--ham", "--url", "x"])
    (['learn', '--spam', '-'], ['learn', '--ham', '-', '--url', 'x'])
    """
    out: list[str] = []
    for word, following in zip(given, [*given[1:], "--"], strict=True):
        out.append(word)
        if word in ("--spam", "--ham") and following.startswith("-") and following != STDIN:
            out.append(STDIN)
    return out

"""`headwater classify`: a mail in, the mail with a verdict out.

Rule: the mail is never lost. Whatever fails, stdout has it unchanged and the exit code is 3. So
every error is caught here, because another exit code would be a verdict.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.commands.asking import URL, FieldOption, SpamLabelOption, TokenOption, UrlOption
from headwater.commands.asking import client as client_of

if TYPE_CHECKING:
    from headwater.mail import Verdict

__all__ = ["FAILED", "classify", "failed_before"]

SPAM, HAM, UNSURE, FAILED = 0, 1, 2, 3  # those of bogofilter
CODES = {"spam": SPAM, "ham": HAM, "unsure": UNSURE}
RETRIES = 2

_state = {"read": False}  # whether a command took the mail, and so answers for it


def classify(
    url: UrlOption = URL,
    passthrough: Annotated[
        bool, typer.Option("--passthrough", "-p", help="Write the mail with headers; the default.")
    ] = False,
    terse: Annotated[
        bool, typer.Option("--terse", "-t", help="Write one line with the verdict, not the mail.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Write nothing; the exit code is the verdict.")
    ] = False,
    embed: Annotated[
        bool, typer.Option("--embed", "-e", help="Exit with 0 for spam, ham and unsure; 3 remains.")
    ] = False,
    input_file: Annotated[
        Path | None,
        typer.Option("--input-file", "-I", metavar="FILE", help="Read the mail from a file."),
    ] = None,
    explain: Annotated[
        int, typer.Option(min=0, max=100, metavar="N", help="How many reasons to add; default 5.")
    ] = 5,
    record: Annotated[
        bool,
        typer.Option("--record", help="Write the mail to the topic too; needs the write token."),
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="For the answer; default 10.")
    ] = 10.0,
    token: TokenOption = None,
    field: FieldOption = "mail",
    spam_label: SpamLabelOption = "spam",
) -> None:
    """Read a mail from stdin, and write it with the verdict of a running service as a header.

    The exit code is that of bogofilter: 0 spam, 1 ham, 2 unsure, 3 error. After an error, such as
    a service that does not answer, the mail is written unchanged.

    \b
    Examples:
      headwater classify < mail
      headwater classify -p -e < mail    # in a filter of procmail or maildrop
      headwater classify -t -I mail
    """
    del passthrough
    writes_mail = not (terse or quiet)
    mail = b""
    try:
        mail = _read(input_file)
        verdict = _asked(mail, url, token, timeout, explain, field, spam_label, record=record)
        out = b"" if quiet else _line(verdict) if terse else _stamped(mail, verdict)
    except Exception as error:
        _say(error)
        _end(mail if writes_mail else b"", FAILED)
    _end(out, 0 if embed else CODES[verdict.word])


def failed_before(arguments: list[str]) -> bool:
    """Whether the command did not take the mail: after a wrong option, stdin has it still.

    Then it is written unchanged, unless the options ask for no mail.
    """
    was_read, _state["read"] = _state["read"], False
    if was_read:
        return False
    takes = {"-q", "--quiet", "-t", "--terse", "-I", "--input-file"}
    closed = sys.stdin is None or sys.stdout is None
    if not (closed or takes & set(arguments) or sys.stdin.isatty()):
        with suppress(OSError, ValueError):
            sys.stdout.buffer.write(sys.stdin.buffer.read())
            sys.stdout.buffer.flush()
    return True


def _read(path: Path | None) -> bytes:
    from consumers.base.errors import ConfigError

    if path is not None:
        _state["read"] = True
        return path.read_bytes()
    value = b"" if sys.stdin is None else sys.stdin.buffer.read()
    _state["read"] = True
    if not value:
        raise ConfigError("expected a mail on stdin, got nothing")
    return value


def _asked(
    mail: bytes,
    url: str,
    token: Path | None,
    timeout: float,
    explain: int,
    field: str,
    spam: str,
    *,
    record: bool,
) -> Verdict:
    from headwater.mail import mail_record, verdict_of

    given = mail_record(mail, field)
    with client_of(url, token, timeout, RETRIES) as client:
        asked = {"record": True} if record else {"explain": explain}
        try:
            made = client.predict(given, **asked)
        except Exception as error:
            if record or getattr(error, "status", None) != 422:
                raise
            made = client.predict(given)  # a model that cannot explain
    return verdict_of(made, spam)


def _stamped(mail: bytes, verdict: Verdict) -> bytes:
    from headwater.mail import stamped

    return stamped(mail, verdict)


def _line(verdict: Verdict) -> bytes:
    """The verdict, its score as of `bogofilter -t`, and the evidence if it is known."""
    evidence = "" if verdict.evidence is None else f" {verdict.evidence:+.2f}"
    return f"{verdict.word} {verdict.score:.6f}{evidence}\n".encode()


def _say(error: Exception) -> None:
    """The error in one line, without secrets."""
    from consumers.base.secrets import masked

    text = " ".join(str(error).split()) or type(error).__name__
    with suppress(OSError, ValueError):
        sys.stderr.write(f"headwater: {masked(text)}\n")


def _end(out: bytes, code: int) -> None:
    """Write the output and end; FAILED if it cannot be written."""
    try:
        if sys.stdout is None:
            raise typer.Exit(FAILED)  # closed by the caller, who sees no mail either
        sys.stdout.buffer.write(out)
        sys.stdout.buffer.flush()
    except (OSError, ValueError) as error:
        _say(error)
        with suppress(OSError):  # what is buffered would fail again at the end of the process
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    raise typer.Exit(code)

"""Parameters of a header, in linear time. Never raises.

`email` compares each semicolon of a header with all that follow, decodes a parameter in any charset
that a mail names, such as punycode, and raises for parameters whose numbers cannot be sorted.
"""

from __future__ import annotations

import re
from email.utils import unquote
from urllib.parse import unquote_to_bytes

from consumers.mail.charsets import decoded
from stream.remembered import remembered

__all__ = ["parameter"]

# After the name: a number, and whether its charset is named (RFC 2231).
_CONTINUED = re.compile(r"\*(?:([0-9]{1,6})(\*)?)?", re.ASCII)


def parameter(value: str, name: str) -> str | None:
    """A parameter of a header's value; None if it has none of this name in lower case.

    Examples
    --------
    >>> parameter('text/plain; Name="a;b"; x=y', "name")
    'a;b'
    >>> parameter("text/plain; name*1=c; name*0*=utf-8''%C3%A4b", "name")
    'äbc'
    """
    if name not in value.lower():
        return None
    pieces: list[tuple[int, str, bool]] = []
    for key, found in _parameters(value):
        key = key.lower()
        if key == name:
            return unquote(unquote(found))
        continued = _CONTINUED.fullmatch(key, len(name)) if key.startswith(name) else None
        if continued is not None:
            pieces.append((int(continued[1] or 0), unquote(found), key.endswith("*")))
    return _joined(sorted(pieces)) if pieces else None


@remembered(1 << 8)  # a header is asked for several parameters
def _parameters(value: str) -> tuple[tuple[str, str], ...]:
    """Name and value of each parameter. A semicolon in quotes does not end one."""
    out: list[tuple[str, str]] = []
    held: list[str] = []
    open_, pieces = False, value.split(";")
    for number, piece in enumerate(pieces, 1):
        held.append(piece)
        if '"' in piece:
            open_ ^= (piece.count('"') - piece.count('\\"')) % 2 == 1
        if not open_ or number == len(pieces):
            name, _, found = ";".join(held).partition("=")
            out.append((name.strip(), found.strip()))
            held.clear()
    return tuple(out)


def _joined(pieces: list[tuple[int, str, bool]]) -> str:
    """The text of the pieces of a value; the first of them may begin with a charset."""
    if not any(encoded for _, _, encoded in pieces):
        return unquote("".join(text for _, text, _ in pieces))
    raw = b"".join(
        unquote_to_bytes(text) if encoded else text.encode("utf-8", "replace")
        for _, text, encoded in pieces
    )
    charset, mark, rest = raw.partition(b"'")
    _, second, text = rest.partition(b"'")
    if not (mark and second):
        return decoded(raw, "")[0]
    return decoded(text, charset.decode("ascii", "replace").strip().lower())[0]

"""Mails that tests generate: well-formed ones by the standard library, and damaged ones.

The words of well-formed mails are known, so a test can ask whether they were found.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP

__all__ = ["damaged", "hostile_markup", "mail", "mails", "page", "style"]

WORDS = (
    *("meeting", "invoice", "Überweisung", "tomorrow", "naïve", "£100", "free", "winner", "Привет"),
    *("你好", "report", "attached", "please", "see", "the", "café", "click", "below", "v1agra"),
    *("offer", "dear", "friend", "regards", "order", "shipped"),
)
HOSTS = ["example.org", "www.shop.example.co.uk", "mail.bücher.example", "192.0.2.7", "a.b.example"]
_PIECES = [
    b"\r\n",
    b"--",
    b"=?",
    b"boundary=",
    b"base64",
    b"<",
    b">",
    b'"',
    b"\0",
    b"\r",
    b":",
    b"=3D",
]


def words(rng: random.Random, most: int) -> str:
    """Some words in one line."""
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


def page(rng: random.Random) -> str:
    """An HTML text with links, inline elements and a hidden one."""
    rows = [
        f"<tr><td>{words(rng, 9)}<br>v<b>ia</b>gra</td><td><a href='https://{rng.choice(HOSTS)}"
        f"/p{n}?q=1'>{words(rng, 2)}</a></td></tr>"
        for n in range(rng.randint(0, 8))
    ]
    hidden = f"<div style='display: none'>{words(rng, 5)}</div>" if rng.random() < 0.3 else ""
    style = "<style>p {color: red}</style>" if rng.random() < 0.5 else ""
    return f"<html><head>{style}</head><body>{hidden}<table>{''.join(rows)}</table></body></html>"


def mail(rng: random.Random) -> bytes:
    """A well-formed mail, as programs write it."""
    message = EmailMessage(SMTP)
    for hop in range(rng.randint(0, 3)):
        message["Received"] = (
            f"from mx{hop}.example.net (mx{hop} [192.0.2.{hop}]) by mail.example.org with ESMTPS; "
            "Tue, 24 Nov 2026 10:00:00 +0000"
        )
    message["Message-ID"] = f"<{rng.getrandbits(64):x}@example.net>"
    message["From"] = f'"{words(rng, 2)}" <someone@shop.example.net>'
    message["To"] = "user@example.org"
    message["Subject"] = words(rng, 8)
    if rng.random() < 0.3:
        message["Reply-To"] = "other@example.com"
    if rng.random() < 0.5:
        message["X-Mailer"] = words(rng, 3)
    lines = "\n".join(words(rng, 12) for _ in range(rng.randint(1, 20)))
    if rng.random() < 0.5:
        lines += f"\nsee https://{rng.choice(HOSTS)}/x?y=1, or www.example.com."
    transfer = rng.choice(["quoted-printable", "base64", "8bit"])
    message.set_content(lines + "\n", charset="utf-8", cte=transfer)
    kind = rng.random()
    if kind > 0.4:
        message.add_alternative(page(rng), subtype="html", cte=rng.choice(["base64", "8bit"]))
    if kind > 0.7:
        message.add_attachment(
            rng.randbytes(200),
            maintype="application",
            subtype="pdf",
            filename=f"{words(rng, 1)}.pdf",
        )
    if kind > 0.9:
        inner = EmailMessage(SMTP)
        inner["Subject"] = words(rng, 4)
        inner.set_content(words(rng, 20) + "\n", charset="utf-8", cte="8bit")
        message.add_attachment(inner, cte="8bit")
    return message.as_bytes()


def mails(count: int, seed: int = 1) -> Iterator[bytes]:
    """So many well-formed mails."""
    rng = random.Random(seed)
    for _ in range(count):
        yield mail(rng)


def damaged(value: bytes, rng: random.Random) -> bytes:
    """The mail with one to eight damages: bytes changed, removed, repeated or put in."""
    out = bytearray(value)
    for _ in range(rng.randint(1, 8)):
        at, end = sorted(rng.randrange(len(out) + 1) for _ in range(2))
        end = min(end, at + rng.choice([1, 4, 60, 2000]))
        kind = rng.randrange(7)
        if kind == 0:
            out[at:end] = rng.randbytes(end - at)
        elif kind == 1:
            del out[at:end]
        elif kind == 2:
            out[at:at] = rng.choice(_PIECES) * rng.choice([1, 1, 3, 50])
        elif kind == 3:
            out[at:at] = out[at:end] * rng.choice([1, 2, 20])
        elif kind == 4:
            del out[at:]
        elif kind == 5:
            out = bytearray(
                bytes(out).replace(rng.choice(_PIECES), rng.choice(_PIECES), rng.randint(1, 5))
            )
        else:
            out = bytearray(bytes(out).replace(b"utf-8", rng.choice(_CHARSETS)))
    return bytes(out)


_CHARSETS = [b"utf-7", b"utf-16", b"punycode", b"x-none", b"iso-2022-jp", b"gb2312", b"", b"zlib"]


def hostile_markup(rng: random.Random) -> str:
    """HTML that is nested deeply, unclosed, or full of odd tags."""
    tags = ["<div>", "<b>", "</b>", "<p hidden>", "<table><tr>", "<svg>", "<style>", "<a href=x>"]
    tags += ["<style>.x{display:none} p b,.y{color:#fff}</style>", "<style>b{font-size:0}</style>"]
    tags += ["<p class=x>", "<b class=y>", "<font color=white>", "<i style='visibility:hidden'>"]
    tags += ["<td bgcolor=black style='color:#000'>", "<b style='visibility:visible;color:red'>"]
    tags += ["<base href=http://a.org/b>", "<form action=c>", "</p>", "</style>"]
    tags += ["<!--", "-->", "<template>", "<title>", "<select>", "&#xD800;", "\0", "<![CDATA[", "x"]
    tags += [f"<p style='{style(rng)}'>", f"<style>p{{{style(rng)}}}</style>"]
    tags += [f"<td bgcolor='{style(rng)}'>", f"<style>{style(rng)}{{{style(rng)}}}</style>"]
    return "".join(rng.choice(tags) for _ in range(rng.choice([5, 50, 3000])))


_PROPERTIES = ["display:", "font-size:", "font:", "color:", "background:", "clip:", "left:", "a:"]
_VALUES = ["none", "1", "1.", "0", "-", "a", " ", "#fff", "red", "!", "!important", "px", "url("]
_VALUES += ["(", ")", "[", "]", "{", "}", "\\", "/*", "*/", ";", ":", ",", "@", "&quot;", "rgb(1,"]


def style(rng: random.Random) -> str:
    """Declarations, some of them of pieces that are repeated."""
    out = []
    for _ in range(rng.choice([1, 1, 3])):
        out.append(rng.choice(_PROPERTIES))
        values = [rng.choice(_VALUES) for _ in range(rng.choice([1, 2, 8]))]
        out += [value * rng.choice([1, 1, 1, 2, 30]) for value in values]
        out.append(";")
    return "".join(out)

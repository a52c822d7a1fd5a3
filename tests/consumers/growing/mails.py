"""Mails that grow: headers, encoded words, addresses, parameters, parts and bodies.

Each is read, and made lighter as if it were too large to be sent.
"""

from __future__ import annotations

from collections.abc import Callable

from consumers.mail.document import mail_document
from consumers.mail.envelope import bare, header_of, mail_key
from consumers.mail.lighter import lighter
from tests.consumers.growing.rule import Construct, repeated

__all__ = ["ENVELOPES", "MAILS"]

MULTI = b"Content-Type: multipart/mixed; boundary=x\n\n"
END = b"\n\nhello\n"
WORDS = b"one two three four five six seven eight nine "


def _cases(n: int) -> bytes:
    """A header name of 20 letters in the cases of the bits of n."""
    return bytes(65 + i + (n >> i & 1) * 32 for i in range(20))


def _of_cases(n: int) -> bytes:
    return b"".join(_cases(i) + b": y\n" for i in range(n)) + b"\nhi"


def _long_boundary(n: int) -> bytes:
    head = b"Content-Type: multipart/mixed; boundary=" + b"b" * n + b"\n\n"
    return head + (b"--" + b"b" * (n - 1) + b"\n") * 2 + b"hi"


def _parts(each: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """200 parts whose text grows."""

    def made(n: int) -> bytes:
        return MULTI + b"".join(b"--x\n\n" + each(n) + b"%d\n" % i for i in range(200)) + b"--x--\n"

    return made


def _alternatives(n: int) -> bytes:
    """n plain texts, and the one HTML of n words that is shown instead of them."""
    plain = b"".join(b"--x\n\nhello %d\n" % i for i in range(n))
    page = b"--x\nContent-Type: text/html\n\n" + b"".join(b"word%d " % i for i in range(n))
    return b"Content-Type: multipart/alternative; boundary=x\n\n" + plain + page + b"\n--x--\n"


# Before the piece, the piece, after it.
_HEADERS: dict[str, tuple[bytes, bytes, bytes]] = {
    "subject": (b"Subject: ", b"a", END),
    "subject words": (b"Subject: ", b"word ", END),
    "folds": (b"Subject: a\n", b" b\n", END),
    "folds of nothing": (b"Subject: a\n", b" \n", END),
    "spaces": (b"Subject: a", b" ", b"b" + END),
    "tabs": (b"Subject: a", b"\t", b"b" + END),
    "returns": (b"Subject: a", b"\r", b"b" + END),
    "lines of returns": (b"", b"A: b\r", END),
    "colons": (b"Subject", b":", END),
    "NULs": (b"Subject: ", b"\0", END),
    "Latin-1": (b"Subject: ", b"\xe9", END),
    "UTF-8": (b"Subject: ", "é".encode(), END),
    "surrogates": (b"Subject: ", b"\xed\xa0\x80", END),
    "names": (b"", b"X-%d: y\n", END),
    "words under names": (b"", b"X-%d: some words of it\n", END),
    "one name": (b"", b"X: y\n", END),
    "long name": (b"", b"x", b": y" + END),
    "long words": (b"X: ", b"abcdefgh ", END),
    "no colon": (b"", b"no header\n", END),
    "spaces before colons": (b"", b"X%d   : y\n", END),
    "empty names": (b"", b": y\n", END),
    "Received": (b"", b"Received: from a%d.org by b.org with SMTP\n", END),
    "hops in one": (b"Received: ", b"from a%d.org by b.org with x ", END),
    "roles": (b"Received: ", b"from ", END),
    "networks": (b"Received: ", b"[192.0.2.1] ", END),
    "Message-ID": (b"", b"Message-ID: <%d@a.org>\n", END),
    "long Message-ID": (b"Message-ID: <", b"x", b">" + END),
    "spaces in Message-ID": (b"Message-ID: <a", b" ", b"b" + END),
    "lines in Message-ID": (b"Message-ID:", b"\n ", b"b" + END),
    "encoded words": (b"Subject: ", b"=?utf-8?Q?a?= ", END),
    "base64 words": (b"Subject: ", b"=?utf-8?B?aGVsbG8=?= ", END),
    "one encoded word": (b"Subject: =?utf-8?Q?", b"a", b"?=" + END),
    "one base64 word": (b"Subject: =?utf-8?B?", b"YWFh", b"?=" + END),
    "hex in a word": (b"Subject: =?utf-8?Q?", b"=C3=A9", b"?=" + END),
    "underscores in a word": (b"Subject: =?utf-8?Q?", b"_", b"?=" + END),
    "beginnings of words": (b"Subject: ", b"=?", END),
    "ends of words": (b"Subject: ", b"?=", END),
    "ends and spaces": (b"Subject: ", b"?= ", END),
    "spaces after a word": (b"Subject: =?utf-8?Q?a?=", b" ", b"=?utf-8?Q?b?=" + END),
    "charsets begun": (b"Subject: ", b"=?utf-8", END),
    "open words": (b"Subject: ", b"=?utf-8?Q?a ", END),
    "languages": (b"Subject: =?utf-8*", b"a", b"?Q?b?=" + END),
    "language marks": (b"Subject: ", b"=?utf-8*a", END),
    "charsets of words": (b"Subject: ", b"=?x-%d?Q?a?= ", END),
    "words in many headers": (b"", b"X-%d: =?utf-8?Q?a?=\n", END),
    "adjacent words": (b"Subject: ", b"=?utf-8?Q?a?=", END),
    "addresses": (b"From: ", b"a%d@b.org, ", END),
    "named addresses": (b"From: ", b'"a" <a%d@b.org>, ', END),
    "open brackets": (b"From: ", b"<", END),
    "closed brackets": (b"From: ", b">", END),
    "brackets": (b"From: ", b"<>", END),
    "quotes": (b"From: ", b'"', END),
    "comments": (b"From: ", b"(", END),
    "ats": (b"From: ", b"@", END),
    "dots": (b"From: a@", b"a.", b"org" + END),
    "groups": (b"To: ", b"a:b@c.org;", END),
    "recipients": (b"To: ", b"a%d@b.org, ", END),
    "many From": (b"", b"From: a%d@b.org\n", END),
    "Reply-To": (b"Reply-To: ", b"a%d@b%d.org, ", END),
    "domains": (b"Reply-To: a@", b"b%d.", b"org" + END),
}
_PARAMETERS: dict[str, bytes] = {
    "names": b";a",
    "empty ones": b";",
    "values": b";a%d=b",
    "one name": b";a=b",
    "quoted values": b';a%d="b"',
    "semicolons in quotes": b';a="b;c"',
    "quotes": b'"',
    "escaped quotes": b';a="\\"b\\""',
    "backslashes": b"\\",
    "equal signs": b"=",
    "spaces": b" ",
    "continued": b";a*%d=b",
    "continued charsets": b";a*%d*=utf-8''b",
    "continued names": b";filename*%d=b",
    "names of files": b";name=b",
    "charsets": b";charset=x%d",
    "charset words": b"charset ",
    "apostrophes": b"'",
    "boundaries": b";boundary=b%d",
    "comments": b"(a)",
    "percents": b";a%d*=utf-8''%%41",
    "Latin-1": b";name=\xe9",
    "continued Latin-1": b";name*%d=\xe9",
}
_BEFORE: dict[str, bytes] = {
    "Content-Type": b"Content-Type: text/plain",
    "Content-Type in quotes": b'Content-Type: text/plain; name="',
    "Content-Type of a container": b"Content-Type: multipart/mixed",
    "charset": b"Content-Type: text/plain; charset=",
    "Content-Disposition": b"Content-Disposition: attachment",
    "file name": b'Content-Disposition: attachment; filename="',
}
_PARTS: dict[str, tuple[bytes, bytes, bytes]] = {
    "empty parts": (MULTI, b"--x\n\n", b"--x--\n"),
    "parts": (MULTI, b"--x\n\n%d hello\n", b"--x--\n"),
    "parts of one text": (MULTI, b"--x\n\nhello\n", b"--x--\n"),
    "parts with names": (MULTI, b"--x\nContent-Type: a/b; name=c%d.d\n\n", b"--x--\n"),
    "parts of many types": (MULTI, b"--x\nContent-Type: a/b%d\n\n", b"--x--\n"),
    "parts of many charsets": (
        *(MULTI, b"--x\nContent-Type: text/plain; charset=x-%d\n\n\xff\n", b"--x--\n"),
    ),
    "parts of HTML": (MULTI, b"--x\nContent-Type: text/html\n\n<p>%d</p>\n", b"--x--\n"),
    "parts of base64": (MULTI, b"--x\nContent-Transfer-Encoding: base64\n\naGk=\n", b"--x--\n"),
    "parts with headers": (MULTI, b"--x\nX: y\nZ: y\nA: b\n\n", b"--x--\n"),
    "parts of a digest": (
        *(b"Content-Type: multipart/digest; boundary=x\n\n", b"--x\n\nA: b\n\nc\n", b"--x--\n"),
    ),
    "preamble": (MULTI, b"pre\n", b"--x\n\nhi\n--x--\n"),
    "epilogue": (MULTI + b"--x\n\nhi\n--x--\n", b"post\n", b""),
    "ends of parts": (MULTI, b"--x--\n", b""),
    "near boundaries": (MULTI + b"--x\n\n", b"--xy\n", b"--x--\n"),
    "dashes": (MULTI + b"--x\n\n", b"--", b"\n--x--\n"),
    "lines of dashes": (MULTI + b"--x\n\n", b"--\n", b"--x--\n"),
    "parts in parts": (b"", b"Content-Type: multipart/a; boundary=%d\n\n--%d\n", b"\nhi"),
    "parts of one boundary": (b"", b"Content-Type: multipart/a; boundary=x\n\n--x\n", b"\nhi"),
    "mails in mails": (b"", b"Content-Type: message/rfc822\n\n", b"\nhi"),
    "containers": (MULTI, b"--x\nContent-Type: multipart/a; boundary=y\n\n--y\n\nhi\n", b"--x--\n"),
    "no boundary": (b"Content-Type: multipart/mixed\n\n", b"--x\n\nhi\n", b""),
    "words of containers": (b"\n\n", b"multipart/ ", b""),
    "encoded mails": (
        MULTI,
        b"--x\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nCmhp\n",
        b"--x--\n",
    ),
    "calendars": (b"Content-Type: text/calendar\n\n", b"SUMMARY;x=%d:a\n b\n", b""),
    "delivery reports": (b"Content-Type: message/delivery-status\n\n", b"A: b\n\n", b""),
}
_BODIES: dict[str, tuple[bytes, bytes, bytes]] = {
    "letters": (b"\n", b"a", b""),
    "words": (b"\n", b"word ", b""),
    "lines": (b"\n", b"a line\n", b""),
    "empty lines": (b"\n", b"\n", b""),
    "lines of Windows": (b"\n", b"a\r\n", b""),
    "returns": (b"\n", b"a\r", b""),
    "spaces": (b"\na", b" ", b"b"),
    "NULs": (b"\n", b"\0", b""),
    "From lines": (b"\n", b"From a\n", b""),
    "equal signs": (b"Content-Transfer-Encoding: quoted-printable\n\n", b"=", b""),
    "hex": (b"Content-Transfer-Encoding: quoted-printable\n\n", b"=41", b""),
    "soft breaks": (b"Content-Transfer-Encoding: quoted-printable\n\n", b"a=\n", b""),
    "spaces at ends": (b"Content-Transfer-Encoding: quoted-printable\n\na", b" ", b"\n"),
    "base64": (b"Content-Transfer-Encoding: base64\n\n", b"aGVsbG8g", b""),
    "lines of base64": (b"Content-Transfer-Encoding: base64\n\n", b"aGVsbG8g\n", b""),
    "padding": (b"Content-Transfer-Encoding: base64\n\n", b"aGk=", b""),
    "no base64": (b"Content-Transfer-Encoding: base64\n\n", b"aG!", b""),
    "uuencode": (
        *(b"Content-Transfer-Encoding: x-uuencode\n\nbegin 644 a\n", b"#86)C\n", b"`\nend\n"),
    ),
    "begins of files": (b"\n", b"begin 644 a\n", b""),
    "files": (b"\n", b"begin 644 a\n#86)C\n`\nend\n", b""),
    "bare links": (b"\n", b"a%d.org/b ", b""),
    "paths": (b"\n", b"a/", b""),
    "dots and paths": (b"\n", b"a.a/", b""),
    "UTF-7": (b"Content-Type: text/plain; charset=utf-7\n\n", b"+AGE-", b""),
    "open UTF-7": (b"Content-Type: text/plain; charset=utf-7\n\n+", b"AGEA", b""),
    "UTF-16": (b"Content-Type: text/plain; charset=utf-16\n\n", b"a\0", b""),
    "ISO 2022": (b"Content-Type: text/plain; charset=iso-2022-jp\n\n", b'\x1b$B$"\x1b(B', b""),
    "HZ": (b"Content-Type: text/plain; charset=hz\n\n", b"~{<:~}", b""),
    "GB 18030": (b"Content-Type: text/plain; charset=gb2312\n\n", b"\xc4\xe3", b""),
    "Big5": (b"Content-Type: text/plain; charset=big5\n\n", b"\xa7\x41", b""),
    "no UTF-8": (b"Content-Type: text/plain; charset=utf-8\n\n", b"\xff", b""),
    "punycode": (b"Content-Type: text/plain; charset=punycode\n\n", b"a-b\xff", b""),
    "idna": (b"Content-Type: text/plain; charset=idna\n\n", b"xn--a.", b""),
    "URLs": (b"\n", b"http://a.org/b ", b""),
    "distinct URLs": (b"\n", b"http://a%d.org/b ", b""),
    "hosts": (b"\n", b"www.a ", b""),
    "hosts in words": (b"\n", b"awww.a ", b""),
    "schemes": (b"\n", b"://", b""),
    "schemes and ends": (b"\n", b"://<", b""),
    "long URL": (b"\nhttp://a.org/", b"b", b""),
    "URL of dots": (b"\nhttp://", b"a.", b"org"),
    "URL of ats": (b"\nhttp://", b"a@", b"org"),
    "URLs of ends": (b"\nhttp://a", b".,;:", b""),
    "URL of slashes": (b"\nhttp:", b"/", b"a"),
    "www in a host": (b"\n", b"www.", b""),
    "names of many alphabets": (b"\n", "http://ü%d.org/ ".encode(), b""),
    "letters before a scheme": (b"\n", b"a", b"://b.org"),
}


def _mails() -> dict[str, Construct]:
    made = {f"header: {name}": repeated(*each) for name, each in _HEADERS.items()}
    for where, before in _BEFORE.items():
        for name, piece in _PARAMETERS.items():
            made[f"{where}: {name}"] = repeated(before, piece, END)
    made |= {f"part: {name}": repeated(*each) for name, each in _PARTS.items()}
    made |= {f"body: {name}": repeated(*each) for name, each in _BODIES.items()}
    made["header: cases of one name"] = _of_cases
    made["part: alternatives of one page"] = _alternatives
    made["part: long boundary"] = _long_boundary
    made["part: texts that begin alike"] = _parts(lambda n: WORDS * n)
    made["part: long texts"] = _parts(lambda n: b"a" * n)
    made["part: texts of spaces"] = _parts(lambda n: b"a" + b" " * n)
    out = {}
    for name, make in made.items():
        out[f"mail, {name}"] = Construct(make, mail_document)
        out[f"lighter mail, {name}"] = Construct(make, _lighter)
    return out


def _lighter(value: bytes) -> object:
    """What is sent of a mail that is twice as large as may be sent."""
    return lighter(value, len(value) // 2)


def _envelope(value: bytes) -> object:
    """What `/checkv2` and the commands do with a mail before it is parsed."""
    return mail_key(value), bare(value), header_of(value, b"message-id")


MAILS = _mails()
ENVELOPES = {
    f"envelope, {name}": Construct(repeated(*each), _envelope)
    for name, each in (
        _HEADERS | {"lines": (b"\n", b"a\n", b""), "ids": (b"", b"message-id:\n", b"\n")}
    ).items()
}

"""Mails of other projects: HEADWATER_MAILS=DIR python -m tests.long.foreign_mails [--all]

Every file below the directory is read as a mail, and compared with what Python's `email` with
policy.default makes of it: subject, sender, words of the texts, names of files. A difference is
counted under its reason, if this file has one, and else it is a violation. `--all` shows all.
`docs/reliability.md` has the projects whose test mails were read; none of them is kept here.
"""

from __future__ import annotations

import email
import html
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from consumers.mail.document import mail_document
from tests.long.table import Row, options_of, report, say

VARIABLE = "HEADWATER_MAILS"
LONGEST = 5.0  # seconds
LARGEST = 1 << 22  # bytes of a file
_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?[!-9;-~]+:|From ")
_TAG = re.compile(r"</?[a-zA-Z!?][^>]*>")
_WORD = re.compile(r"\w{2,}")
_CODE = re.compile(
    r"<(script|style|template|head)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE
)


def main() -> int:
    """1 if a mail raises, takes too long, or differs without a reason."""
    options = options_of(__doc__, "records", 1_000_000)
    options.add_argument("--all", action="store_true", help="show differences that have a reason")
    given = options.parse_args()
    place = os.environ.get(VARIABLE)
    if not place:
        say(f"no {VARIABLE}: give a directory with mails")
        return 0
    row = Row("mails of other projects, `tests.long.foreign_mails`", 0)
    reasons: Counter[str] = Counter()
    for path in sorted(each for each in Path(place).rglob("*") if each.is_file()):
        value = path.read_bytes()
        if len(value) > LARGEST or row.count >= given.records or not _HEADER.match(value):
            continue
        row.count += 1
        name = str(path.relative_to(place))
        found = []
        for difference, reason in differences(value):
            reasons[reason] += 1
            if not reason:
                found.append(f"{name}: {difference}")
            elif given.all:
                say(f"{name}: {reason}: {difference}")
        row.add(found)
    how = ", ".join(f"{what or 'without a reason'} {n:,}" for what, n in reasons.most_common())
    return report(given, row, how or "no difference")


def differences(value: bytes) -> Iterator[tuple[str, str]]:
    """What differs, and why it may; the reason is "" if it may not."""
    began = time.process_time()
    try:
        made = mail_document(value)
    except Exception as error:  # whatever it is, it is wrong
        yield f"{type(error).__name__}: {error}", ""
        return
    if (seconds := time.process_time() - began) > LONGEST:
        yield f"took {seconds:.1f} s", ""
    try:
        expected = oracle(value)
    except Exception as error:  # the oracle raises for some mails
        yield f"{type(error).__name__}: {error}", "`email` raises"
        return
    for field, text in expected.items():
        found = str(made[field]) + (str(made["hidden"]) if field == "text" else "")
        # The oracle joins the words of cells and lines, so spaces count nowhere.
        joined = "".join(found.lower().split())
        missing = {word for word in _WORD.findall(text.lower()) if word not in joined}
        if missing:
            shown = " ".join(sorted(missing)[:12])
            yield f"{field} lacks {shown}", reason(field, text, value, made)


def oracle(value: bytes) -> dict[str, str]:
    """What `email` finds."""
    message = email.message_from_bytes(value, policy=default)
    texts, names = [], []
    for part in message.walk():
        assert isinstance(part, EmailMessage)
        if name := part.get_filename():
            names.append(name)
        if part.is_multipart() or part.get_content_maintype() != "text" or part.is_attachment():
            continue
        text = part.get_content()
        if part.get_content_subtype() == "html":
            text = html.unescape(_TAG.sub("", _CODE.sub("", text)))
        texts.append(text)
    return {
        "subject": str(message["subject"] or ""),
        "from": str(message["from"] or ""),
        "text": "\n".join(texts),
        "attachments": "\n".join(names),
    }


# A pattern of the bytes of a mail, and why words of it may be missing.
_REASONS = (
    (rb"(?i)^content-type:\s*(?:text/calendar|application/ics)", "of a calendar its entries"),
    (rb"(?i)font-size: ?0", "words with hidden letters"),
    (rb"(?i)^content-transfer-encoding: *[\w-]+[ \t]+\r?$", "spaces after an encoding"),
    (rb"(?i)--\s+epilogue\s*\Z", "text after the last part"),
    (rb"(?m)^begin [0-7]{3,4} ", "uuencoded files are no text"),
    (rb"(?i)content-transfer-encoding:[ \t]*x-uu", "uuencoded files are no text"),
)


def reason(field: str, text: str, value: bytes, made: dict[str, Any]) -> str:
    """Why words may be missing; "" if they may not."""
    structure = made["structure"].split()
    if "\ufffd" in text or any("\ud800" <= c <= "\udfff" for c in text):
        return "`email` does not decode"
    if "wrong_bad_charset" in structure or "wrong_unknown_charset" in structure:
        return "the bytes are in another charset"
    if field == "text" and "wrong_cut" in structure:
        return "bounds"
    if field == "attachments" and "\\" in made["attachments"]:
        return "backslashes of names stay"
    for pattern, why in _REASONS if field == "text" else ():
        if re.search(pattern, value, re.MULTILINE):
            return why
    if field == "from" and text.count("@") > 1:
        return "only the first of several senders"
    if field == "text" and any("rfc822_" in word for word in structure) and b"base64" in value:
        return "mails in base64 are opened"
    if re.search(rb"(?m)^[!-9;-~]+[ \t]+:", value.partition(b"\n\n")[0]):
        return "spaces before the colon of a header"
    return ""


if __name__ == "__main__":
    sys.exit(main())

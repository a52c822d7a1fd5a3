"""Damaged mails: python -m tests.long.mail_fuzz [--records 1000000].

Each mail is generated, damaged, and read twice. It must give the same document both times, with
fields of their kinds and within their bounds, in at most `LONGEST` seconds of the processor.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import time
from collections import Counter

from consumers.codecs.formats.mail import FORMAT
from consumers.codecs.raw import RawDocuments
from consumers.mail import limits
from consumers.mail.document import mail_document
from consumers.mail.envelope import mail_key
from consumers.mail.fields import FIELDS
from tests.consumers.mail.made import damaged, hostile_markup, mail
from tests.long.table import Row, options_of, report, say

LONGEST = 5.0
MARKUPS = 10  # every tenth mail is hostile HTML


def main() -> int:
    """1 if a mail raises, gives another document the second time, or takes too long."""
    options = options_of(__doc__, "records", 1_000_000).parse_args()
    faulthandler.enable()
    row = Row("damaged mails, `tests.long.mail_fuzz`", 0)
    rng = random.Random(options.seed)
    wrong: Counter[str] = Counter()
    slowest, began = 0.0, time.monotonic()
    value = b""
    while row.count < options.records:
        if row.count % 4 == 0:  # several damages of each mail
            value = mail(rng)
            if row.count % (4 * MARKUPS) == 0:
                value = b"Content-Type: text/html\n\n" + hostile_markup(rng).encode()
        row.count += 1
        hostile = damaged(value, rng)
        found, seconds = violations(hostile)
        slowest = max(slowest, seconds)
        row.add([f"{found}: {hostile[:2000]!r}"] if found else [])
        wrong.update(each for each in words(hostile) if each.startswith("wrong_"))
        if row.count % 50_000 == 0:
            say(f"{row.count:,} mails, {time.monotonic() - began:.0f} s, {len(row.violations)} bad")
    how = ", ".join(f"{what} {count:,}" for what, count in sorted(wrong.items()))
    return report(options, row, f"{how}; the slowest took {slowest:.2f} s")


def violations(value: bytes) -> tuple[str, float]:
    """What is wrong with the document of a mail ("": nothing), and its processor seconds."""
    began = time.process_time()
    try:
        made = mail_document(value)
        mail_key(value).encode()
    except Exception as error:  # whatever it is, it is wrong
        return f"{type(error).__name__}: {error}", 0.0
    seconds = time.process_time() - began
    if seconds > LONGEST:
        return f"took {seconds:.1f} s", seconds
    if list(made) != list(FIELDS):
        return f"has the fields {list(made)}", seconds
    for name, kind in FIELDS.items():
        part = made[name]
        if kind != "text":
            if not isinstance(part, int):
                return f"{name} is {part!r}", seconds
            continue
        most = limits.LONGEST_TEXT if name == "text" else limits.LONGEST_SHORT
        try:
            if len(part) > most or "\0" in part or part.encode().decode() != part:
                return f"{name} is out of bounds", seconds
        except UnicodeEncodeError as error:
            return f"{name}: {error}", seconds
    if RawDocuments(FORMAT)(value) != made:
        return "has another document the second time", seconds
    return "", seconds


def words(value: bytes) -> list[str]:
    """The words of its structure."""
    try:
        return str(mail_document(value)["structure"]).split()
    except Exception:  # reported already
        return []


if __name__ == "__main__":
    sys.exit(main())

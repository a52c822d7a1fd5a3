"""Headers that are no evidence, because a filter or a mailbox added them to a mail that had come.

Rule: a verdict of another filter is not what the mail says. A model that learned it would let pass
each mail with such a header, and a flag such as `Status` says what the reader did.
`Authentication-Results` and `Received-SPF` stay evidence: a server writes them before a filter sees
the mail, removes those that come from outside (RFC 8601), and they say what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from stream.remembered import remembered

__all__ = ["IGNORED", "LATER", "ignored_in", "is_ignored"]

IGNORED = "ignored_headers"  # of the parser in an identity: the patterns of `[mail] ignore_headers`
# `*` is any text. The first lines are filters, the others mailboxes and mail programs.
LATER = (
    *("x-headwater*", "x-was-headwater*", "x-spam*", "x-ham*", "x-bogosity", "x-dspam-*"),
    *("x-crm114-*", "x-spambayes-*", "x-spamprobe", "x-rspamd-*", "x-amavis-*", "x-virus*"),
    *("x-mailscanner*", "x-*-mailscanner*", "x-antivirus*", "x-antispam*", "x-barracuda-*"),
    *("x-ironport-*", "x-proofpoint-*", "x-sa-*", "x-pmx-*", "x-cloudmark-*", "x-clamav-*"),
    *("x-policyd-*", "x-dcc-*", "x-razor-*", "x-pyzor-*", "x-symantec-*", "x-sophos-*"),
    *("x-fortinet-*", "x-trend-*", "x-mimecast-spam-*", "x-forefront-antispam-*"),
    *("x-microsoft-antispam*", "x-ms-exchange-organization-*", "x-ms-exchange-antispam-*"),
    *("x-eopattributedmessage", "x-yahoofilteredbulk", "x-gmx-anti*", "x-purgate*", "x-junk*"),
    *("status", "x-status", "x-keywords", "x-uid", "x-uidl", "x-imap", "x-imapbase", "x-mozilla-*"),
    *("x-gmail-*", "x-gm-thrid", "x-evolution*", "x-kmail-*", "x-account-key", "x-folder"),
    *("x-label", "x-tuid", "x-apple-*", "content-length", "lines"),
)


@lru_cache(maxsize=64)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    every = (re.escape(each.strip().lower()).replace(r"\*", ".*") for each in names)
    return re.compile("|".join(every))


@remembered(1 << 13)
def is_ignored(name: str, more: tuple[str, ...] = ()) -> bool:
    """Whether a header is no evidence.

    Parameters
    ----------
    name
        Its name in lower case.
    more
        Other names, with `*` for any text.

    Examples
    --------
    >>> is_ignored("x-spam-status"), is_ignored("subject"), is_ignored("x-our-7", ("X-Our-*",))
    (True, False, True)
    """
    return _pattern((*LATER, *more)).fullmatch(name) is not None


def ignored_in(parser: Mapping[str, str]) -> tuple[str, ...]:
    """The patterns in what an identity says of its parser."""
    return tuple(parser.get(IGNORED, "").split())

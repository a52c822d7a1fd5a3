"""A mail as it is sent: without the bytes of its attachments, where it is too large.

Rule: text is kept before attachments, and the beginning of the body as it is, because the id of a
mail is a digest of it. So the copy has the id of the mail.
"""

from __future__ import annotations

from base64 import b64encode

from consumers.mail.envelope import COMPARED, LARGEST, bare, mail_key
from consumers.mail.parts import MailPart, mail_parts

__all__ = ["lighter", "mail_record"]

_KEPT = 2 * COMPARED  # bytes of the body: the digest takes no carriage returns and no spaces


def lighter(value: bytes, most: int = LARGEST) -> bytes:
    """The mail, or a copy with fewer bytes, at most so many.

    Examples
    --------
    >>> lighter(b"Subject: hi\\n\\nyou")
    b'Subject: hi\\n\\nyou'
    """
    if len(value) <= most:
        return value
    parts, _ = mail_parts(value)
    source = parts[0].source
    body = parts[0].start
    leaves = [part for part in parts if not part.container and part.source is source]
    share = most // max(sum(map(_has_text, leaves)), 1)
    pieces, at = [], 0
    for part in leaves:
        kept = max(part.start, body + _KEPT)
        if _has_text(part):
            kept = max(kept, part.start + share)
        if kept < part.end:
            pieces.append(source[at:kept])
            at = part.end
    return b"".join([*pieces, source[at:]])[:most]


def _has_text(part: MailPart) -> bool:
    return part.type.startswith(("text/", "message/"))


def mail_record(value: bytes, field: str = "mail") -> dict[str, str]:
    """The observation of a mail, the same on each way to a service.

    Examples
    --------
    >>> mail_record(b"Subject: hi\\nX-Headwater: ham\\n\\n")["mail"]
    'U3ViamVjdDogaGkKCg=='
    """
    return {"id": mail_key(value), field: b64encode(lighter(bare(value))).decode()}

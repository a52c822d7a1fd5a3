"""What the parts of a mail show: texts, hidden texts, links, names of attachments.

Rule: as mail programs show it. A text is shown although it is called an attachment if the mail has
no other one. HTML is read wherever it is, because a reader may open it. A mail in a mail shows
its subject and its sender above its text. A plain text is hidden if HTML is shown instead of it
that says something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from consumers.mail import limits
from consumers.mail.links import link_of, urls_in, word_of
from consumers.mail.markup import charset_in, read_markup
from consumers.mail.parts import MailPart
from consumers.mail.values import decoded, enclosed_in, parameter, words_decoded

__all__ = ["Body"]

_CHARSET = re.compile(
    r"charset\*?\s*=\s*(?:\"\s*|'\s*|[\w-]*'[\w-]*')?([\w.:+-]{1,40})", re.IGNORECASE
)
_SUFFIX = re.compile(r"\.(\w{1,10})\s*$")
_PAGE_SUFFIXES = ("htm", "html", "shtml", "xhtml", "xht")
_PAGES = ("text/html", "application/xhtml+xml")
_CALENDARS = ("text/calendar", "application/ics")
# Reports and such: fields that mail programs show as they are.
_SHOWN = (
    *("message/delivery-status", "message/disposition-notification", "message/feedback-report"),
    *("message/global-delivery-status", "message/global-disposition-notification"),
)
_ENTRY = re.compile(
    r"^(SUMMARY|DESCRIPTION|LOCATION|COMMENT|URL|CONTACT|ORGANIZER)((?:;[^:\n]*+)?):([^\n]*)",
    re.MULTILINE | re.IGNORECASE,
)
_NAMED = re.compile(r"CN=\"?([^\";:]+)", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([nN,;\\])")
_ALTERNATIVE = "multipart_alternative"
_URL = re.compile(r"://\S*")
_WORD = re.compile(r"\w+")


class Body:
    """What the parts of a mail have, gathered part by part.

    Parameters
    ----------
    parts
        The parts of the mail.
    wrong
        What is wrong with it, to which this adds.

    Attributes
    ----------
    text, hidden, attachments, charsets, shape, odd
        Parts of the document, see `fields`. A text that repeats an earlier one is left out.
    charset
        The first charset that a text declares, "" if none does.
    links
        How many links there are.
    """

    def __init__(self, parts: list[MailPart], wrong: set[str]) -> None:
        self.wrong = wrong
        self.links = 0
        self.charset = ""
        self.hidden: list[str] = []
        self.attachments: list[str] = []
        self.charsets: list[str] = []
        self.shape: list[str] = []
        self.odd: list[str] = []
        self._texts: list[str] = []
        self._targets: list[tuple[str, str]] = []  # of HTML, with the text that is shown
        self._offered: list[tuple[int, int]] = []  # depth of an alternative, and a plain text of it
        self._instead: dict[int, int] = {}  # a plain text to the HTML that is shown instead
        self._left, self._markup = limits.LARGEST_TEXT, limits.LARGEST_MARKUP
        self._add(parts)
        self._hide()
        self.text = self._texts[0] if len(self._texts) == 1 else "\n".join(self._distinct())

    def _add(self, parts: list[MailPart]) -> None:
        path: list[str] = []
        pages: list[MailPart] = []
        texts: list[MailPart] = []
        for part in parts:
            kind = word_of(part.type)
            del path[part.depth :]
            while self._offered and self._offered[-1][0] >= part.depth:
                self._offered.pop()
            self.shape.append(f"{path[-1]}_{kind}" if path else kind)
            path.append(kind)
            if part.depth and part.type.startswith("text/"):
                self._declared(part)
            if part.depth and ("subject" in part.fields or "from" in part.fields):
                shown = (part.header("from"), part.header("subject"))
                self._texts.append("\n".join(filter(None, shown)))
            if part.container:
                if part.filename:
                    self._attach(part, kind)
                continue
            text = part.type.startswith("text/") or part.type in _SHOWN
            apart = part.disposition == "attachment"
            if part.filename or apart or not text:
                self._attach(part, kind)
            if text and not apart:
                first = len(self._texts)
                self._read(part)
                self._offer(part, first, offered=_ALTERNATIVE in path[-2:-1])
            elif _is_page(part):
                pages.append(part)
            elif text:
                texts.append(part)
            elif part.type in _CALENDARS:
                self._read(part)
        for part in pages:
            self._read(part)
        if not any(map(str.strip, self._texts)):
            for part in texts:
                self._read(part)

    def _offer(self, part: MailPart, first: int, *, offered: bool) -> None:
        """Note which texts are instead of which others. `first`: the first one of this part.
        `offered`: it is one of several alternatives."""
        if not _is_page(part):
            more = range(first, len(self._texts)) if offered else ()
            self._offered += [(part.depth - 1, text) for text in more]
        elif self._texts[-1]:
            self._instead.update((text, len(self._texts) - 1) for _, text in self._offered)
            self._offered.clear()

    def _hide(self) -> None:
        """Hide plain texts that are offered beside HTML, and of which it has not a quarter of the
        words."""
        last, shown = -1, set[str]()  # the words of a page are read once for all texts
        for plain, page in self._instead.items():
            if page != last:
                last, shown = page, _words_of(self._texts[page])
            text = self._texts[plain]
            words = _words_of(text)
            if 4 * len(words & shown) < len(words):
                self.hidden.append(text)
                self.odd.append("alternative_differs")
                self._texts[plain] = ""

    def _attach(self, part: MailPart, kind: str) -> None:
        self.attachments.append(_attached(kind, part.filename).rstrip())

    def _declared(self, part: MailPart) -> str:
        """The charset that a part declares."""
        value = part.header("content-type")
        if "charset" not in value.lower():
            return ""
        name = parameter(value, "charset")
        if not name or "=" in name:
            found = _CHARSET.search(value)
            name = found[1] if found else ""
        name = name.strip().lower()[:40]
        self.charset = self.charset or name
        return name

    def _read(self, part: MailPart) -> None:
        content = part.content(self._left, self.wrong)
        self._left -= part.end - part.start
        charset = self._declared(part)
        page = _is_page(part)
        if page and not charset:
            charset = charset_in(content)
        if charset:
            self.charsets.append(word_of(charset))
        if (not page and content.startswith(b"begin ")) or b"\nbegin " in content:
            content = self._opened(content)
        text, wrong = decoded(content, charset)
        if wrong:
            self.wrong.add(wrong)
        if page:
            self._read_page(text)
        elif part.type in _CALENDARS:
            self._texts.append("\n".join(_shown_of(text)))
        else:
            text = text.replace("\r\n", "\n") if "\r" in text else text
            self._texts.append((_joined(text) if _is_joined(part) else text).strip())

    def _opened(self, content: bytes) -> bytes:
        """A text without the files that are uuencoded in it."""
        content, files = enclosed_in(content)
        for name, inside in files:
            shown = words_decoded(decoded(name, "")[0])
            self.attachments.append(_attached("uuencode", shown))
            if _suffix_of(shown) in _PAGE_SUFFIXES:
                self._read_page(decoded(inside, charset_in(inside))[0])
        return content

    def _read_page(self, text: str) -> None:
        if len(text) > self._markup:
            text = text[: max(self._markup, 0)]
            self.wrong.add("cut")
        self._markup -= len(text)
        markup = read_markup(text)
        self._texts.append(markup.text)
        if markup.hidden:
            self.hidden.append(markup.hidden)
            self.odd.append("hidden_text")
        if markup.cut:
            self.wrong.add("cut")
        self.odd += [f"images_{min(markup.images, 9)}"] if markup.images else []
        self.odd += ["form"] if markup.forms else []
        self._targets += markup.links

    def _distinct(self) -> Iterator[str]:
        """The texts without those that have the words of an earlier one."""
        seen = set[str]()
        for text in self._texts:
            words = " ".join(text.split())
            if words and words not in seen:
                seen.add(words)
                yield text

    def read_links(self) -> str:
        """The links of the HTML and of the texts, each followed by its domain."""
        urls = [*self._targets, *((url, "") for text in self._texts for url in urls_in(text))]
        out: dict[str, None] = {}
        odd: dict[str, None] = {}
        for url, shown in urls[: limits.MOST_LINKS]:
            link = link_of(url)
            if link is None:
                continue
            self.links += 1
            out[f"{link.host}{link.path} {link.domain}"] = None
            odd.update((f"link_{each}", None) for each in link.odd)
            named = urls_in(shown)
            other = link_of(named[0]) if named else None
            if other is not None and other.domain != link.domain:
                odd["link_shows_another"] = None
        if len(urls) > limits.MOST_LINKS:
            self.wrong.add("cut")
        self.odd += odd
        return " ".join(out)


def _is_page(part: MailPart) -> bool:
    """Whether a part is HTML, by its type or its name."""
    return part.type in _PAGES or _suffix_of(part.filename) in _PAGE_SUFFIXES


def _is_joined(part: MailPart) -> bool:
    """Whether the lines of a text are cut at any character, and not only at spaces (RFC 3676)."""
    value = part.header("content-type")
    return "elsp" in value.lower() and (
        (parameter(value, "delsp") or "").strip().lower() == "yes"
        and (parameter(value, "format") or "").strip().lower() == "flowed"
    )


def _joined(text: str) -> str:
    """The lines of `_is_joined` as they were before they were cut.

    Examples
    --------
    >>> _joined("> via \\n> gra\\nbest\\n-- \\nJo")
    '> viagra\\nbest\\n-- \\nJo'
    """
    out: list[str] = []
    before = -1  # how often the line before is quoted, if it continues
    for line in text.split("\n"):
        bare = line.lstrip(">")
        quoted, bare = len(line) - len(bare), bare.removeprefix(" ")
        signature = bare == "-- "
        if quoted != before or signature:
            out.append("\n" + ">" * quoted + " " * (quoted > 0))
        before = quoted if bare.endswith(" ") and not signature else -1
        out.append(bare[:-1] if before >= 0 else bare)
    return "".join(out).removeprefix("\n")


def _words_of(text: str) -> set[str]:
    """The words of a text, without those of URLs, which HTML does not show."""
    return set(_WORD.findall(_URL.sub(" ", text).lower()))


def _suffix_of(name: str) -> str:
    """The end of a file's name in lower case, without its dot; "" if it has none."""
    found = _SUFFIX.search(name)
    return found[1].lower() if found else ""


def _attached(kind: str, name: str) -> str:
    """The words of an attachment."""
    suffix = _suffix_of(name)
    return f"{kind} suffix_{suffix} {name}" if suffix else f"{kind} {name}"


def _shown_of(text: str) -> Iterator[str]:
    """What a calendar shows of its entries (RFC 5545).

    Examples
    --------
    >>> list(_shown_of("SUMMARY:a\\\\, b\\n  c\\nORGANIZER;CN=Jo:mailto:jo@a.org\\nUID:7"))
    ['a, b c', 'Jo jo@a.org']
    """
    text = text.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "")
    for found in _ENTRY.finditer(text):
        name = _NAMED.search(found[2]) if found[2] else None
        value = _ESCAPED.sub(_unescaped, found[3]).removeprefix("mailto:")
        yield f"{name[1]} {value}" if name else value


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] in "nN" else found[1]

"""Styles of HTML, as far as they can hide a text: declarations, and the rules of style sheets.

tinycss2 reads what is not simple, and colours. It is Python and slow, so declarations that a split
at semicolons reads as well are split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from consumers.mail import limits
from stream.remembered import remembered

__all__ = [
    "COLOUR",
    "GROUPS",
    "Colour",
    "Declared",
    "StyleRule",
    "background_of",
    "colour_of",
    "declared",
    "hides",
    "rules_of",
    "value_of",
]

COLOUR = "colour"
# Properties that may hide a text, and what they do together.
GROUPS = {
    "display": "display",
    "visibility": "visibility",
    "opacity": "opacity",
    "font-size": "size",
    "font": "size",
    "line-height": "line",
    "text-indent": "indent",
    "position": "place",
    "left": "place",
    "top": "place",
    "right": "place",
    "bottom": "place",
    "margin-left": "place",
    "margin-top": "place",
    "clip": "place",
    "height": "box",
    "max-height": "box",
    "width": "box",
    "max-width": "box",
    "overflow": "box",
    "mso-hide": "mso",
    "color": COLOUR,
    "background": COLOUR,
    "background-color": COLOUR,
}
# A property to its value in lower case, and whether that is important.
Declared = dict[str, tuple[str, bool]]
Colour = tuple[int, int, int]

_NOT_SIMPLE = re.compile(r"\\|/\*|[\"'(][^\"'();]*;|[{}@]")
_OPENING = re.compile(r"[({\[]")
_DIGITS = re.compile(r"\d++")
# No digit is given back, or many digits before a letter would take the square of their number.
_LENGTH = re.compile(r"\s*([+-]?(?:\d++(?:\.\d*+)?|\.\d++))\s*(px|pt|em|rem|ex|%|)(?![\w.])")
_TINY = {"px": 1, "pt": 1, "": 1, "em": 0.1, "rem": 0.1, "ex": 0.1, "%": 10}
_FAR = -500  # off the screen
_SIDES = ("left", "top", "right", "bottom")
# Of a style sheet: what may have braces in it, and what ends a rule or a block.
_TOKEN = re.compile(
    r"/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?|\\.|[{};]|<!--|-->", re.DOTALL
)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
_PLAIN_MEDIA = re.compile(r"@media\s+(?:only\s+)?(?:all|screen)\s*$", re.IGNORECASE)
_BACKGROUND_WORDS = re.compile(r"[^\s(]+(?:\([^)]*\)?)?")
_IMAGE = ("url(", "gradient(", "image(", "var(", "inherit")
_NOWHERE = ("transparent", "none", "initial", "unset")


class StyleRule(NamedTuple):
    """A rule of a style sheet: its selectors, and what it declares."""

    selectors: str
    declared: Declared


@remembered(1 << 11)
def declared(style: str) -> Declared:
    """What a style declares of the properties that can hide.

    Examples
    --------
    >>> declared("Display: None !important; margin: 0; d\\\\69splay: block; color:red")
    {'display': ('none', True), 'color': ('red', False)}
    """
    if _NOT_SIMPLE.search(style) and _is_bounded(style):
        return _parsed(style)
    out: Declared = {}
    for piece in style.split(";"):
        name, colon, value = piece.partition(":")
        name = name.strip().lower()
        if colon and name in GROUPS:
            _put(out, name, value)
    return out


def _is_bounded(style: str) -> bool:
    """Whether tinycss2 reads a style. Otherwise it may raise: RecursionError, or ValueError."""
    if len(_OPENING.findall(style)) > limits.MOST_BRACKETS:
        return False
    longest = max(map(len, _DIGITS.findall(style)), default=0)
    return longest <= limits.LONGEST_NUMBER


def _parsed(style: str) -> Declared:
    from tinycss2 import parse_blocks_contents, serialize

    out: Declared = {}
    for each in parse_blocks_contents(style, skip_comments=True, skip_whitespace=True):
        if each.type == "declaration" and each.lower_name in GROUPS:
            value = [token for token in each.value if token.type != "comment"]
            _put(out, each.lower_name, serialize(value), each.important)
    return out


def _put(out: Declared, name: str, value: str, important: bool = False) -> None:
    value = value.strip().lower()
    before, mark, word = value.rpartition("!")
    if mark and word.strip() == "important":
        value, important = before.strip(), True
    if value and not (name in out and out[name][1] and not important):
        out[name] = value, important


def rules_of(sheet: str) -> Iterator[StyleRule]:
    """The rules of a style sheet that hold on any screen, if they declare something that can hide.

    Examples
    --------
    >>> list(rules_of("/* } */ p{} .x, b > i {display:none} @media print {p {color:red}}"))
    [StyleRule(selectors='.x, b > i', declared={'display': ('none', False)})]
    """
    begin, preludes, skipped = 0, list[str](), 0
    for found in _TOKEN.finditer(sheet):
        mark = found.group()
        if mark == ";" and not (preludes and preludes[-1][:1] != "@"):
            begin = found.end()
        elif mark == "{":
            prelude = _COMMENT.sub(" ", sheet[begin : found.start()]).strip()
            preludes.append(prelude)
            skipped += prelude[:1] == "@" and not _PLAIN_MEDIA.match(prelude)
            begin = found.end()
        elif mark == "}":
            if preludes:
                prelude = preludes.pop()
                if prelude[:1] == "@":
                    skipped -= not _PLAIN_MEDIA.match(prelude)
                elif not skipped and (made := declared(sheet[begin : found.start()])):
                    yield StyleRule(prelude, made)
            begin = found.end()
    if preludes and preludes[-1][:1] != "@" and not skipped and (made := declared(sheet[begin:])):
        yield StyleRule(preludes[-1], made)  # a sheet that ends in a rule


def hides(made: Declared) -> set[str]:
    """The groups of properties by which these declarations may hide, colours apart.

    Examples
    --------
    >>> sorted(hides(declared("font:1px arial; left:-9999px; position:absolute")))
    ['place', 'size']
    >>> hides(declared("font-size:12px; display:block; height:0"))
    set()
    """
    out = set()
    for name, (value, _) in made.items():
        group = GROUPS[name]
        if group in ("display", "visibility"):
            if value in ("none", "hidden", "collapse"):
                out.add(group)
        elif group == "mso" and value == "all":
            out.add(group)
        elif group == "size":
            if name == "font" and "/" in value:
                value = value.partition("/")[0].rpartition(" ")[2]
            size = _first_length(value) if name == "font" else _length(value)
            if size is not None and size[0] <= _TINY[size[1]]:
                out.add(group)
        elif group in ("opacity", "line"):
            size = _length(value)
            if size is not None and size[0] <= (0.05 if group == "opacity" else 0):
                out.add(group)
        elif group == "indent" and (size := _length(value)) is not None and size[0] <= _FAR:
            out.add(group)
    return out | _placed(made)


def value_of(made: Declared, name: str) -> str:
    """The value of a property; "" without it."""
    return made[name][0] if name in made else ""


def _placed(made: Declared) -> set[str]:
    """The same of properties that hide together."""
    out = set()
    free = value_of(made, "position") in ("absolute", "fixed")
    for name in _SIDES if free else ():
        if (size := _length(value_of(made, name))) is not None and size[0] <= _FAR:
            out.add("place")
    if free and value_of(made, "clip").replace(" ", "").startswith(("rect(0", "rect(1px")):
        out.add("place")
    for name in ("margin-left", "margin-top"):
        if (size := _length(value_of(made, name))) is not None and size[0] <= _FAR:
            out.add("place")
    over = value_of(made, "overflow") == "hidden"
    for name in ("height", "max-height", "width", "max-width"):
        size = _length(value_of(made, name))
        if size is not None and size[0] <= 0 and (over or name == "max-height"):
            out.add("box")
    return out


def _length(value: str) -> tuple[float, str] | None:
    found = _LENGTH.match(value) if value else None
    return (float(found[1]), found[2]) if found else None


def _first_length(value: str) -> tuple[float, str] | None:
    """The size of a `font`: its first length, which no weight such as 400 is."""
    for word in value.split():
        size = _length(word)
        if size is not None and (size[1] or size[0] == 0):
            return size
    return None


def background_of(made: Declared) -> str:
    """The colour of a background as it is written; "" if it has none, "?" if it is a picture."""
    for name in ("background-color", "background"):
        value = value_of(made, name)
        if any(each in value for each in _IMAGE):
            return "?"
    value = value_of(made, "background-color")
    if value and value not in _NOWHERE:
        return value
    value = value_of(made, "background")
    closed = value.rfind(")") + 1
    # A bracket that nothing closes opens nothing.
    for word in _BACKGROUND_WORDS.findall(value[:closed] + value[closed:].replace("(", " ")):
        if word not in _NOWHERE and colour_of(word) is not None:
            return str(word)
    return ""


@remembered(1 << 11)
def colour_of(value: str) -> Colour | None:
    """A colour as red, green and blue up to 255; None if it is no colour, or mostly transparent.

    Examples
    --------
    >>> colour_of("#fff"), colour_of("rgb(255, 0, 0)"), colour_of("White"), colour_of("fffffe")
    ((255, 255, 255), (255, 0, 0), (255, 255, 255), (255, 255, 254))
    >>> colour_of("transparent"), colour_of("auto")
    (None, None)
    """
    from tinycss2.color3 import parse_color

    value = value.strip()[:100]
    found = parse_color(value)
    if found is None and re.fullmatch("[0-9a-fA-F]{6}", value):  # of an attribute
        found = parse_color(f"#{value}")
    if found is None or isinstance(found, str) or found.alpha < 0.5:
        return None
    red, green, blue = (min(max(round(each * 255), 0), 255) for each in found[:3])
    return red, green, blue

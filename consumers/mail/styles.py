"""Styles of HTML, as far as they can hide a text: declarations, and the rules of style sheets.

tinycss2 reads what is not simple, and colours. It is Python and slow, so declarations that a split
at semicolons reads as well are split.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
    "decides",
    "declared",
    "hides",
    "is_clear",
    "is_for_screens",
    "rules_of",
    "text_colour_of",
]

COLOUR = "colour"
# Properties that may hide a text, and what they do together.
GROUPS = {
    "display": "display",
    "content-visibility": "display",
    "visibility": "visibility",
    "opacity": "opacity",
    "filter": "opacity",
    "font-size": "size",
    "font": "size",
    "line-height": "line",
    "text-indent": "indent",
    "position": "place",
    "left": "place",
    "top": "place",
    "right": "place",
    "bottom": "place",
    "inset": "place",
    "margin": "place",
    "margin-left": "place",
    "margin-top": "place",
    "clip": "place",
    "clip-path": "place",
    "transform": "place",
    "height": "box",
    "max-height": "box",
    "width": "box",
    "max-width": "box",
    "overflow": "box",
    "overflow-x": "box",
    "overflow-y": "box",
    "mso-hide": "mso",
    "color": COLOUR,
    "background": COLOUR,
    "background-color": COLOUR,
    "background-image": COLOUR,
    "-webkit-text-fill-color": COLOUR,
}
# A property to its value in lower case, and whether that is important.
Declared = dict[str, tuple[str, bool]]
Colour = tuple[int, int, int]

_NOT_SIMPLE = re.compile(r"\\|/\*|[\"'(][^\"'();]*;|[{}@]")
_OPENING = re.compile(r"[({\[]")
_DIGITS = re.compile(r"\d++")
# No digit is given back, or many digits before a letter would take the square of their number.
_LENGTH = re.compile(r"\s*([+-]?(?:\d++(?:\.\d*+)?|\.\d++))\s*([a-z]{1,4}|%|)(?![\w.])")
# A unit in pixels, about: text of 16 pixels, on a screen of 800 by 600.
_PIXELS = {
    "pt": 4 / 3,
    "in": 96.0,
    "cm": 37.8,
    "mm": 3.78,
    "q": 0.945,
    **dict.fromkeys(("", "px"), 1.0),
    **dict.fromkeys(("em", "rem", "pc"), 16.0),
    **dict.fromkeys(("ex", "ch", "vw", "vi", "vmax"), 8.0),
    **dict.fromkeys(("vh", "vb", "vmin"), 6.0),
    **dict.fromkeys(("lh", "rlh"), 20.0),
}
_OF_TEXT, _OF_PAGE, _OF_ONE = 0.16, 6.0, 0.01  # what 1 % is, of a size, of a place, of a share
_WIDTH = 800.0  # of a screen
_MOST_MEDIA = 20
_TINY, _THIN = 1.6, 2.0  # pixels of a letter, and of a box
_FAR, _FARTHER = -500.0, 2000.0  # off the screen: to the left of it, or after all else
_FAINT = 0.05  # an opacity
_SIDES = ("left", "top", "right", "bottom")
_SAME = ("inherit", "unset", "revert", "revert-layer", "currentcolor")  # as the element around
_RELATIVE = re.compile(r"[\d.]\s*(?:em|ex|ch|%)(?![\w.])|larger|smaller")  # to the size around
_SCROLLS = ("hidden", "clip", "auto", "scroll")
_FILTER = re.compile(r"opacity\(([^)]*)")
_SCALE = re.compile(r"\bscale(?:x|y|3d)?\(([^),]*)")
_MOVES = re.compile(r"\btranslate(?:x|y|3d)?\(([^)]*)")
_CLIPS = re.compile(r"(?:inset\(\s*(?:[5-9]\d|\d{3})|(?:circle|ellipse)\(\s*0|polygon\(\s*0)")
# Of a style sheet: what may have braces in it, and what ends a rule or a block.
_TOKEN = re.compile(
    r"/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?|\\.|[{};]|<!--|-->", re.DOTALL
)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
# Blocks whose rules hold always; others, such as those of fonts, have no rules of elements.
_HOLDS = re.compile(r"@layer\b|@supports\b(?!.*\bnot\b)", re.IGNORECASE | re.DOTALL)
_MEDIA = re.compile(r"@media\b(.*)", re.IGNORECASE | re.DOTALL)
_DEVICE = re.compile(r"(?:only\s+)?(?:all|screen)?$")
_CONDITION = re.compile(r"\(\s*(min|max)-(?:device-)?width\s*:([^()]*)\)$")
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
    {'display': ('none', True), 'margin': ('0', False), 'color': ('red', False)}
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
            skipped += prelude[:1] == "@" and not _holds(prelude)
            begin = found.end()
        elif mark == "}":
            if preludes:
                prelude = preludes.pop()
                if prelude[:1] == "@":
                    skipped -= not _holds(prelude)
                elif not skipped and (made := declared(sheet[begin : found.start()])):
                    yield StyleRule(prelude, made)
            begin = found.end()
    if preludes and preludes[-1][:1] != "@" and not skipped and (made := declared(sheet[begin:])):
        yield StyleRule(preludes[-1], made)  # a sheet that ends in a rule


def _holds(prelude: str) -> bool:
    """Whether the rules in a block of a style sheet hold on a screen."""
    media = _MEDIA.match(prelude)
    return is_for_screens(media[1]) if media else _HOLDS.match(prelude) is not None


def is_for_screens(query: str) -> bool:
    """Whether what is for these media is for a screen of a usual width.

    Examples
    --------
    >>> [is_for_screens(q) for q in ("", "Screen and (min-width:1px)", "print, all", "print")]
    [True, True, True, False]
    >>> is_for_screens("only screen and (max-width: 480px)")
    False
    """
    return any(_is_for_screens(each.strip().lower()) for each in query.split(",")[:_MOST_MEDIA])


def _is_for_screens(query: str) -> bool:
    first, *others = (part.strip() for part in query.split(" and "))
    if first[:1] == "(":
        others.append(first)
    elif not _DEVICE.match(first):
        return False
    for condition in others:
        found = _CONDITION.match(condition)
        size = _length(found[2]) if found else None
        if found is None or size is None:
            return False
        if size > _WIDTH if found[1] == "min" else size < _WIDTH:
            return False
    return True


def decides(made: Declared, names: Iterable[str]) -> bool:
    """Whether a property of these is declared, and not as it is around the element.

    Examples
    --------
    >>> [decides(declared(f"font-size:{x}"), ["font-size"]) for x in ("9px", "2em", "inherit")]
    [True, False, False]
    """
    values = [made[name][0] for name in names if name in made]
    return any(value not in _SAME and not _RELATIVE.search(value) for value in values)


def hides(made: Declared) -> set[str]:
    """The groups of properties by which these declarations may hide, colours apart.

    Examples
    --------
    >>> sorted(hides(declared("font:1px arial; left:-9999px; position:absolute")))
    ['place', 'size']
    >>> hides(declared("font-size:12px; display:block; height:0"))
    set()
    """
    found = {GROUPS[name] for name, (value, _) in made.items() if _is_nothing(name, value)}
    return found | _placed(made)


def _is_nothing(name: str, value: str) -> bool:
    """Whether a property hides by itself."""
    group, size, most = GROUPS[name], None, 0.0
    if group in ("display", "visibility"):
        return value in ("none", "hidden", "collapse")
    if group == "mso":
        return value == "all"
    if group == "indent":
        return _is_far(value)
    if group == "size":
        if name == "font":
            value = value.partition("/")[0].rpartition(" ")[2] if "/" in value else value
            size, most = _first_length(value), _TINY
        else:
            size, most = _length(value, _OF_TEXT), _TINY
    elif group == "opacity":
        found = _FILTER.search(value) if name == "filter" else None
        size, most = _length(found[1] if found else value, _OF_ONE), _FAINT
    elif group == "line":
        size = _length(value)
    return size is not None and size <= most


def value_of(made: Declared, name: str) -> str:
    """The value of a property; "" without it."""
    return made[name][0] if name in made else ""


def _placed(made: Declared) -> set[str]:
    """The same of properties that hide together."""
    out = set()
    position = value_of(made, "position")
    moved = position in ("absolute", "fixed", "relative")
    places = [value_of(made, name) for name in _SIDES] if moved else []
    places += value_of(made, "inset").split() if moved else []
    places += [value_of(made, "margin-left"), value_of(made, "margin-top")]
    places += value_of(made, "margin").split()
    transform = value_of(made, "transform")
    for arguments in _MOVES.findall(transform):
        places += arguments.split(",")
    if any(map(_is_far, places)):
        out.add("place")
    scale = _SCALE.search(transform)
    share = _length(scale[1], _OF_ONE) if scale else None
    if share is not None and abs(share) <= _FAINT:
        out.add("place")
    clip = value_of(made, "clip").replace(" ", "").startswith(("rect(0", "rect(1px"))
    if clip and position in ("absolute", "fixed"):
        out.add("place")
    if _CLIPS.match(value_of(made, "clip-path")):
        out.add("place")
    over = any(value_of(made, f"overflow{axis}") in _SCROLLS for axis in ("", "-x", "-y"))
    for name in ("height", "max-height", "width", "max-width"):
        size = _length(value_of(made, name))
        if size is not None and size <= (_THIN if over else 0) and (over or name == "max-height"):
            out.add("box")
    return out


def _is_far(value: str) -> bool:
    size = _length(value)
    return size is not None and not _FAR < size < _FARTHER


def _length(value: str, percent: float = _OF_PAGE) -> float | None:
    """A length in pixels, about; `percent`: what 1 % is. None if it is no length."""
    found = _LENGTH.match(value) if value else None
    unit = percent if found and found[2] == "%" else _PIXELS.get(found[2]) if found else None
    return float(found[1]) * unit if found and unit is not None else None


def _first_length(value: str) -> float | None:
    """The size of a `font`: its first length, which no weight such as 400 is."""
    for word in value.split():
        size = _length(word, _OF_TEXT)
        if size is not None and (size == 0 or not word[-1].isdigit()):
            return size
    return None


def text_colour_of(made: Declared) -> str:
    """The colour of a text as it is written; "" if it is that around the element."""
    colour = value_of(made, "-webkit-text-fill-color") or value_of(made, "color")
    return "" if colour in _SAME else colour


def background_of(made: Declared) -> str:
    """The colour of a background as it is written; "" if it has none, "?" if it is a picture."""
    for name in ("background-color", "background", "background-image"):
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
    >>> colour_of("transparent"), colour_of("auto"), colour_of("hsl(0 0% 100% / 0.9)")
    (None, None, (255, 255, 255))
    """
    found = _colour(value)
    if found is None or found[3] < 0.5:
        return None
    red, green, blue = (min(max(round(each * 255), 0), 255) for each in found[:3])
    return red, green, blue


def is_clear(value: str) -> bool:
    """Whether a text of this colour cannot be seen on anything.

    Examples
    --------
    >>> [is_clear(each) for each in ("transparent", "#fff0", "rgb(0 0 0 / 1%)", "#fff", "auto")]
    [True, True, True, False, False]
    """
    found = _colour(value)
    return found is not None and found[3] <= _FAINT


@remembered(1 << 11)
def _colour(value: str) -> tuple[float, float, float, float] | None:
    """Red, green, blue and opacity of a colour up to 1; None for another value."""
    from tinycss2.color4 import parse_color

    value = value.strip()[:100]
    found = parse_color(value)
    if found is None and re.fullmatch("[0-9a-fA-F]{6}", value):  # of an attribute
        found = parse_color(f"#{value}")
    if found is None or isinstance(found, str):
        return None
    try:
        red, green, blue = found.to("srgb").coordinates if found.space != "srgb" else found[:3]
    except NotImplementedError:  # a space of colours that is not known
        return None
    return red or 0.0, green or 0.0, blue or 0.0, found.alpha

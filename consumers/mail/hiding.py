"""Texts of HTML that are not shown, which are taken out of its tree.

An element is gone by its own style: `display`, `opacity`, its place or its box. Visibility, size
and colour are given on to the elements inside, which may have others of their own: a newsletter
sets the size of a cell to 0 and that of the texts in it to 14. A rule of a style sheet counts as in
a browser: important ones first, then by the specificity of its selector, then the later one.

Styles of HTML, as far as they can hide a text: declarations, and the rules of style sheets.

tinycss2 reads what is not simple, and colours. It is Python and slow, so declarations that a split
at semicolons reads as well are split.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

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
    "taken",
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


_STYLED = "[style],[hidden],[color],[bgcolor],[background],body[text]"
_INHERITED = ("visibility", "size", "line", "indent", COLOUR)
_MEMBERS = {each: tuple(n for n, group in GROUPS.items() if group == each) for each in _INHERITED}
_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)
_NEAR = 24  # sum of the differences of two colours that look the same
_COMBINATOR = re.compile(r"\s*>\s*|\s+")
_PART = re.compile(r"#|[.\[]|\*|[\w-]+")
_NO_SELECTOR = re.compile(r"[:+~]")  # states of an element, and siblings
_LONGEST_SELECTOR = 200
_MOST_LEVELS = 6
_PAGE = ("html", "body")

Priority = tuple[bool, int, int, int]  # important, inline, specificity, order


def taken(tree: Any, sheet: str, size: int) -> tuple[list[str], bool]:
    """The texts that are hidden, in the order of their elements, and whether a bound was reached.

    Parameters
    ----------
    tree
        The HTML, out of which they are taken.
    sheet
        The texts of its `style` elements.
    size
        The length of the HTML.
    """
    found = tree.css(_STYLED)
    rules = list(rules_of(sheet)) if sheet else []
    own = [_own(node) for node in found]
    every = {id(made): made for made in own}  # equal styles are one object, and pages repeat them
    every |= {id(rule.declared): rule.declared for rule in rules}
    groups = {group for made in every.values() for group in hides(made)} | _colours(every.values())
    if not groups:
        return [], False
    nodes = {node.mem_id: node for node in found}
    # The tree may give an element for each of the selectors that it has.
    styles = {node.mem_id: made for node, made in zip(found, own, strict=True)}
    cut = False
    if rules:
        rules = [rule for rule in rules if _touches(rule.declared, groups)]
        cut = _cascade(_Selectors(tree, size), nodes, styles, rules)
    texts = _gone(nodes, styles)
    for group in _INHERITED:
        if group in groups:
            texts += _invisible(group, nodes, styles)
    return texts, cut


def _own(node: Any) -> Declared:
    """What the attributes of an element declare."""
    attributes: Mapping[str, str | None] = node.attributes
    style = attributes.get("style")
    made = declared(style) if style else {}
    if len(attributes) == 1 and style:
        return made
    if "hidden" in attributes:
        made = {"display": ("none", False)} | made
    for name, prop in (("bgcolor", "background-color"), ("color", "color"), ("text", "color")):
        if (value := attributes.get(name)) and (name != "text" or node.tag == "body"):
            made = {prop: (value.lower(), False)} | made
    if attributes.get("background"):
        made = {"background": ("url(", False)} | made
    return made


def _touches(made: Declared, groups: set[str]) -> bool:
    return any(GROUPS[name] in groups for name in made)


def _colours(every: Iterable[Declared]) -> set[str]:
    """The group of colours, if a colour of a text is that of a background."""
    texts, backgrounds = {_BLACK}, {_WHITE}
    for made in every:
        if "color" in made and (colour := colour_of(made["color"][0])):
            texts.add(colour)
        if ("background" in made or "background-color" in made) and (
            colour := colour_of(background_of(made))
        ):
            backgrounds.add(colour)
    # A bounded number of both: more colours than that are no design.
    some = list(backgrounds)[:50]
    return {COLOUR} if any(_near(t, b) for t in list(texts)[:50] for b in some) else set()


def _near(one: Colour, other: Colour) -> bool:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) <= _NEAR


def _cascade(
    select: _Selectors, nodes: dict[int, Any], styles: dict[int, Declared], rules: list[StyleRule]
) -> bool:
    """Add what rules declare to the styles of the elements that they select; whether a bound was
    reached."""
    ranks: dict[int, dict[str, Priority]] = {}
    for order, rule in enumerate(rules):
        for selector in rule.selectors.split(","):
            weight = _specificity(selector)
            for node in select(selector):
                place = node.mem_id
                if place not in ranks:
                    own = styles.get(place, {})
                    styles[place] = dict(own)
                    nodes.setdefault(place, node)
                    ranks[place] = {name: (own[name][1], 1, 0, 0) for name in own}
                made, rank = styles[place], ranks[place]
                for name, value in rule.declared.items():
                    given = (value[1], 0, weight, order)
                    if name not in rank or rank[name] <= given:
                        made[name], rank[name] = value, given
    return select.cut


def _specificity(selector: str) -> int:
    weights = {"#": 10_000, ".": 100, "[": 100, "*": 0}
    total, after = 0, False
    for part in _PART.findall(selector):
        if part in weights:
            total += weights[part]
            after = part != "*"
        else:
            total += not after
            after = False
    return total


class _Selectors:
    """Finds the elements of selectors: each compound of one by the tree, and then up from these.

    Attributes
    ----------
    cut
        Whether a bound was reached.
    """

    def __init__(self, tree: Any, size: int) -> None:
        self._tree = tree
        self._found: dict[str, list[Any]] = {}
        self._places: dict[str, set[int]] = {}
        self._left = {
            "MOST_RULES": limits.MOST_RULES,
            "MOST_TESTS": limits.MOST_TESTS,
            "MOST_CLIMBS": limits.MOST_CLIMBS,
            "MOST_MATCHES": min(limits.FEWEST_MATCHES + size, limits.MOST_MATCHES),
        }
        self.cut = False

    def _takes(self, name: str, count: int = 1) -> bool:
        """Whether so much more is within a bound of `limits`."""
        self._left[name] -= count
        self.cut |= self._left[name] < 0
        return self._left[name] >= 0

    def __call__(self, selector: str) -> list[Any]:
        """The elements of a selector, none beyond the bounds."""
        selector = selector.strip()
        if not selector or len(selector) > _LONGEST_SELECTOR or _NO_SELECTOR.search(selector):
            return []
        if not self._takes("MOST_RULES"):
            return []
        *outer, last = _COMBINATOR.split(selector)
        found = self._compound(last)
        if not self._takes("MOST_MATCHES", len(found)):
            return []
        if not outer or not found or len(outer) > _MOST_LEVELS:
            return found if not outer else []
        places = [self._around(each) for each in reversed(outer)]
        return [node for node in found if self._is_in(node, places)] if all(places) else []

    def _is_in(self, node: Any, places: list[set[int]]) -> bool:
        """Whether an element is in those, the nearest first. A child counts as any descendant."""
        wanted = iter(places)
        place = next(wanted)
        above = node
        while (above := above.parent) is not None and self._takes("MOST_CLIMBS"):
            if above.mem_id in place:
                following = next(wanted, None)
                if following is None:
                    return True
                place = following
        return False

    def _around(self, selector: str) -> set[int]:
        if selector not in self._places:
            self._places[selector] = {node.mem_id for node in self._compound(selector)}
        return self._places[selector]

    def _compound(self, selector: str) -> list[Any]:
        if selector not in self._found:
            found: list[Any] = []
            if self._takes("MOST_TESTS", selector.count("[")):
                try:
                    found = self._tree.css(selector)
                except Exception:  # whatever the parser of selectors refuses selects nothing
                    found = []
            self._found[selector] = found if self._takes("MOST_MATCHES", len(found)) else []
        return self._found[selector]


def _gone(nodes: dict[int, Any], styles: Mapping[int, Declared]) -> list[str]:
    """The texts of elements that are not there at all."""
    texts, removed = [], set[int]()
    for place, made in styles.items():
        if not made or not hides(made).difference(_INHERITED):
            continue
        node = nodes[place]
        if place in removed or node.tag in _PAGE:
            continue
        removed.add(place)
        removed.update(each.mem_id for each in node.css("*"))
        texts.append(node.text_lexbor())
        node.decompose()
    for place in removed:
        nodes.pop(place, None)
    return texts


def _invisible(group: str, nodes: Mapping[int, Any], styles: Mapping[int, Declared]) -> list[str]:
    """The texts that a property hides which elements inside may have otherwise."""
    members = _MEMBERS[group]
    setters = {place for place, made in styles.items() if any(name in made for name in members)}
    colours = _Colours(styles)
    texts = []
    for place, node in nodes.items():
        if place not in setters or node.tag == "html":
            continue
        hidden = colours.are_equal(node) if group == COLOUR else group in hides(styles[place])
        if hidden and (text := _text_without(node, setters, group == COLOUR)):
            texts.append(text)
    return texts


class _Colours:
    """The colours of elements as they are written, and of what is behind: theirs, or the nearest
    ones around them. Each element is looked at once."""

    def __init__(self, styles: Mapping[int, Declared]) -> None:
        self._styles = styles
        self._known: dict[int, tuple[str, str]] = {}

    def are_equal(self, node: Any) -> bool:
        """Whether the text of an element has the colour of its background."""
        colour, behind = self._of(node)
        text = colour_of(colour) if colour else _BLACK
        back = colour_of(behind) if behind else _WHITE
        return text is not None and back is not None and _near(text, back)

    def _of(self, node: Any) -> tuple[str, str]:
        path = []
        while node is not None and node.mem_id not in self._known:
            path.append(node.mem_id)
            node = node.parent
        found = ("", "") if node is None else self._known[node.mem_id]
        for place in reversed(path):
            if made := self._styles.get(place):
                own = value_of(made, "color"), background_of(made)
                found = own[0] or found[0], own[1] or found[1]
            self._known[place] = found
        return found


def _text_without(node: Any, setters: set[int], links_apart: bool) -> str:
    """The text of an element without those inside that decide for themselves. It is taken out."""
    texts: list[str] = []
    stack = list(node.iter(include_text=True))[::-1]
    while stack:
        each = stack.pop()
        if each.is_text_node:
            texts.append(each.text_content or "")
            each.decompose()
        elif each.mem_id not in setters and not (links_apart and each.tag == "a"):
            stack += list(each.iter(include_text=True))[::-1]
    return "".join(texts)

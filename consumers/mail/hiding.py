"""Texts of HTML that are not shown, which are taken out of its tree.

An element is gone by its own style: `display`, `opacity`, its place or its box. Visibility, size
and colour are given on to the elements inside, which may have others of their own: a newsletter
sets the size of a cell to 0 and that of the texts in it to 14. A size of 2em in it stays 0. Some
elements, such as `title`, a browser does not show at all. A rule of a style sheet counts as in
a browser: important ones first, then by the specificity of its selector, then the later one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from consumers.mail import limits
from consumers.mail.styles import (
    COLOUR,
    GROUPS,
    Colour,
    Declared,
    StyleRule,
    background_of,
    colour_of,
    decides,
    declared,
    hides,
    is_clear,
    rules_of,
    text_colour_of,
)

__all__ = ["UNSEEN", "taken"]

# Elements that are not shown: whatever their style is, or unless a style or `open` shows them.
_NEVER = ("iframe", "noembed", "noframes", "datalist")
_CLOSED = ("title", "rp", "dialog")
_UNSEEN = ",".join((*_NEVER, *_CLOSED))
UNSEEN = re.compile(f"<(?:{'|'.join((*_NEVER, *_CLOSED))})", re.IGNORECASE)
_STYLED = "[style],[hidden],[color],[bgcolor],[background],body[text]"
_INHERITED = ("visibility", "size", "line", "indent", COLOUR)
_MEMBERS = {each: tuple(n for n, group in GROUPS.items() if group == each) for each in _INHERITED}
_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)
_NEAR = 24  # sum of the differences of two colours that look the same
_COMBINATOR = re.compile(r"\s*>\s*|\s+")
_PART = re.compile(r"#|[.\[]|\*|[\w-]+")
# States of an element, and siblings. What an element is not takes no longer than what it is.
_NO_SELECTOR = re.compile(r"[+~]|:(?!not\([\w.#-]+\))")
_LONGEST_SELECTOR = 200
_MOST_LEVELS = 6
_PAGE = ("html", "body")

Priority = tuple[bool, int, int, int]  # important, inline, specificity, order


def taken(tree: Any, sheet: str, size: int, *, unseen: bool) -> tuple[list[str], bool]:
    """The texts that are hidden, in the order of their elements, and whether a bound was reached.

    Parameters
    ----------
    tree
        The HTML, out of which they are taken.
    sheet
        The texts of its `style` elements.
    size
        The length of the HTML.
    unseen
        Whether `UNSEEN` may be in it.
    """
    found = tree.css(_STYLED) + (tree.css(_UNSEEN) if unseen else [])
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
    if node.tag in _NEVER:
        return {"display": ("none", True)}
    if node.tag in _CLOSED and "open" not in attributes:
        made = {"display": ("none", False)} | made
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
        if shown := text_colour_of(made):
            if is_clear(shown):
                return {COLOUR}
            if colour := colour_of(shown):
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
    apart = setters if group == COLOUR else {n for n in setters if decides(styles[n], members)}
    colours = _Colours(styles)
    texts = []
    for place, node in nodes.items():
        if place not in setters or node.tag == "html":
            continue
        hidden = colours.are_equal(node) if group == COLOUR else group in hides(styles[place])
        if hidden and (text := _text_without(node, apart, group == COLOUR)):
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
        if colour and is_clear(colour):
            return True
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
                own = text_colour_of(made), background_of(made)
                found = own[0] or found[0], own[1] or found[1]
            self._known[place] = found
        return found


def _text_without(node: Any, apart: set[int], links_apart: bool) -> str:
    """The text of an element without those inside that decide for themselves. It is taken out."""
    texts: list[str] = []
    stack = list(node.iter(include_text=True))[::-1]
    while stack:
        each = stack.pop()
        if each.is_text_node:
            texts.append(each.text_content or "")
            each.decompose()
        elif each.mem_id not in apart and not (links_apart and each.tag == "a"):
            stack += list(each.iter(include_text=True))[::-1]
    return "".join(texts)

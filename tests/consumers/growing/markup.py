"""HTML that grows: tags, attributes, comments, entities, links, tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from consumers.mail.document import mail_document
from tests.consumers.growing.rule import Construct, repeated

__all__ = ["MARKUPS"]

HTML = b"Content-Type: text/html; charset=utf-8\n\n"
TAGS = (
    *("div", "p", "b", "i", "span", "a", "font", "center", "h1", "pre", "br", "hr", "img", "input"),
    *("table", "tr", "td", "caption", "colgroup", "tbody", "ul", "li", "dl", "dd", "dt", "form"),
    *("select", "option", "optgroup", "button", "textarea", "title", "style", "script", "template"),
    *("noscript", "iframe", "object", "marquee", "svg", "math", "mi", "desc", "foreignObject"),
    *("html", "head", "body", "frameset", "frame", "plaintext", "xmp", "listing", "nobr", "ruby"),
    *("rt", "address", "details", "meta", "link", "base", "unknown", "isindex", "image"),
)
PAIRED = ("a", "b", "nobr", "p", "div", "td", "table", "li", "select", "option", "button", "svg")
_ATTRIBUTES = {
    "distinct": b" a%d=1",
    "without values": b" a%d",
    "equal": b" a=1",
    "quoted": b' a%d="b"',
    "without spaces": b'a%d="b"',
    "apostrophes": b"a%d='b'",
    "slashes": b"/a%d",
    "equal signs": b" =",
    "ends in quotes": b' a%d=">"',
    "styles": b' style%d="x"',
    "in lines": b"\na%d\t=\n1",
    "NULs": b" \0%d",
}
# Before the piece, the piece, after it.
_OTHERS: dict[str, tuple[bytes, bytes, bytes]] = {
    "text": (b"", b"a", b""),
    "words": (b"<p>", b"word ", b""),
    "lines": (b"<p>", b"a\n", b""),
    "brackets": (b"", b"<", b""),
    "ends": (b"", b">", b""),
    "spaces in a tag": (b"<p", b" ", b">a"),
    "long name": (b"<", b"a", b">a"),
    "long attribute": (b"<p ", b"a", b">b"),
    "long value": (b'<p a="', b"a", b'">b'),
    "open value": (b'<p a="', b"b=", b""),
    "comments": (b"", b"<!-- a -->", b""),
    "open comments": (b"", b"<!-- a ", b""),
    "dashes": (b"<!--", b"-", b""),
    "ends of comments": (b"<!--", b"--!", b""),
    "declarations": (b"", b"<!a>", b""),
    "doctypes": (b"", b"<!doctype html>", b""),
    "instructions": (b"", b"<?a>", b""),
    "CDATA": (b"", b"<![CDATA[a]]>", b""),
    "CDATA in svg": (b"<svg>", b"<![CDATA[a]]>", b""),
    "rules": (b"<style>", b".a%d{display:none}", b"</style><p class=a1>b"),
    "rules of one class": (b"<style>", b".a{display:none}", b"</style><p class=a>b"),
    "selectors": (b"<style>", b".a%d,", b".b{display:none}</style><p class=a1>b"),
    "long selectors": (b"<style>", b"p ", b"{display:none}</style><p>b"),
    "blocks": (b"<style>", b"@media screen{", b"p{display:none}</style><p>b"),
    "open rules": (b"<style>", b"p{", b"</style><p>b"),
    "open strings": (b"<style>", b"\"a'", b"</style><p>b"),
    "open comments of styles": (b"<style>", b"/*", b"</style><p>b"),
    "backslashes": (b"<style>p{display:none;", b"\\", b"}</style><p>b"),
    "elements of a rule": (b"<style>p b{display:none}</style>", b"<p><b>a</b>", b""),
    "elements in a rule": (b"<style>p b{display:none}</style><p>", b"<b>a", b""),
    "elements of no rule": (b"<style>i b{display:none}</style><p>", b"<b>a", b"<i>b"),
    "rules and elements": (b"", b"<style>p a%d, p b{display:none}</style><b>", b""),
    "long colour": (b"<font color='", b"a", b"'>b"),
    "colours": (b"", b"<p style='color:#%06d'>a", b""),
    "white": (b"", b"<b style='color:#fff'>a", b""),
    "white in white": (b"<div style='background:#fff'>", b"<b style='color:#fff'>a", b""),
    "backgrounds": (b"", b"<div style='background:#fff'><b style='color:#fff'>a", b""),
    "sizes": (b"", b"<b style='font-size:0'>a<i style='font-size:9px'>b", b""),
    "long styles": (b"<p style='", b"color:red;", b"'>a"),
    "moves": (b"<p style='transform:", b"translate(", b"'>a"),
    "media": (b"<style media='", b"screen and (min-width:1px) and ", b"'>p{color:#fff}</style>a"),
    "lists of media": (b"<style>@media ", b"print,", b"{p{color:#fff}}</style>a"),
    "styles in quotes": (b'<p style="', b"font:'a;b';", b'">a'),
    "bases": (b"", b"<base href=http://a%d.org/>", b"<a href=b>c"),
    "refreshes": (b"", b"<meta http-equiv=refresh content='0;url=a%d'>", b""),
    "entities": (b"", b"&amp;", b""),
    "numbers": (b"", b"&#65;", b""),
    "long number": (b"&#", b"9", b";"),
    "ampersands": (b"", b"&", b""),
    "long entity": (b"&", b"a", b";"),
    "NULs": (b"", b"\0", b""),
    "end tags": (b"", b"</div>", b""),
    "end tags of nothing": (b"", b"</>", b""),
    "paragraphs that end": (b"", b"</p>", b""),
    "breaks that end": (b"", b"</br>", b""),
    "misnested": (b"", b"<b><i>a</b></i>", b""),
    "misnested blocks": (b"", b"<b><p>a</b>", b""),
    "misnested links": (b"", b"<a href=x><p>a</a>", b""),
    "text in tables": (b"<table>", b"a<tr>", b""),
    "tags in tables": (b"<table>", b"<b>a<tr>", b""),
    "tables in tables": (b"", b"<table><tr><td>a", b""),
    "links in tables in links": (b"", b"<a href=http://a.org>a<table><tr><td>", b""),
    "fonts in tables": (b"", b"<font size=%d>a<table><tr><td>", b""),
    "distinct fonts": (b"", b"<font size=%d>a", b""),
    "fonts and paragraphs": (b"", b"<font size=%d>a<p>", b""),
    "fonts in paragraphs": (b"", b"<p><font size=%d>a</p>", b""),
    "links": (b"", b"<a href=http://a%d.org/b>c</a>", b""),
    "links that show": (b"", b"<a href=http://a.org>http://b%d.org</a>", b""),
    "targets": (b"<a href='http://a.org/", b"b", b"'>c</a>"),
    "text of one link": (b"<a href=http://a.org>", b"://a ", b"</a>"),
    "URLs": (b"<p>", b"http://a.org ", b""),
    "hidden": (b"", b"<p hidden>a</p>", b""),
    "hidden in hidden": (b"", b"<div hidden>a", b""),
    "hidden by style": (b"", b"<p style='display:none'>a</p>", b""),
    "hidden by style in hidden": (b"", b"<div style='display:none'>a", b""),
    "styles": (b"", b"<p style='color:red'>a</p>", b""),
    "long style": (b"<p style='", b"display :", b"'>a"),
    "spaces in a style": (b"<p style='display:", b" ", b"none'>a"),
    "rules of elements": (b"<p class=a>b" * 1000 + b"<style>", b".a{font-size:0}", b"</style>"),
    "titles": (b"<head>", b"<title>a</title>", b""),
    "scripts": (b"", b"<script>a</script>", b""),
    "long script": (b"<script>", b"a<b ", b"</script>c"),
    "scripts in comments": (b"<script><!--", b"<script>", b""),
    "style sheets": (b"", b"<style>p {a: b}</style>", b""),
    "long style sheet": (b"<style>", b"p {a: b}\n", b"</style>c"),
    "templates": (b"", b"<template>a</template>", b""),
    "templates in templates": (b"", b"<template>a", b""),
    "lists in lists": (b"", b"<ul><li>a", b""),
    "definitions": (b"<dl>", b"<dt>a<dd>b", b""),
    "options": (b"<select>", b"<option>a", b""),
    "buttons": (b"", b"<button>a", b""),
    "forms": (b"", b"<form>a</form>", b""),
    "images": (b"", b"<img src=a%d>", b""),
    "svg in math": (b"", b"<svg><desc><math><mi>", b""),
    "bodies": (b"", b"<body a%d=1>", b""),
    "pages": (b"", b"<html a%d=1>", b""),
    "headings": (b"", b"<h1>a</h1>", b""),
    "framesets": (b"", b"<frameset>", b""),
    "many alphabets": (b"<p>", "ü你".encode(), b""),
}


# Of styles: properties that may hide, what is repeated in their values, and what ends these.
_PROPERTIES = ("display", "font-size", "font", "color", "background")
_VALUES = (
    *("1", "1.", ".1", "-", "+", "a", "a ", " ", ",", "/", "#", "%", "!", "! ", "important", "px"),
    *("(", "a(", "( ", ")", "a(b)", "[", "{", "}", "\\", "\\a ", "/*", "*/", "<!--", ";", ":"),
    *('"', "'a", "'a'", "@", "@a", "url(", "rgb(1,", "rgb(", "red ", "\n", "\t", "é", "var(--a,"),
)
_ENDS = ("", "x", "!", ";", "(;")


def _styles() -> dict[str, Callable[[int], bytes]]:
    """Values that grow, in an attribute and in a rule. All of a style stay in the quotes."""
    made: dict[str, Callable[[int], bytes]] = {}
    for prop, value, end in product(_PROPERTIES, _VALUES, _ENDS):
        piece = value.replace('"', "&quot;").encode()
        before, after = f'<p style="{prop}:'.encode(), f'{end}">a'.encode()
        made[f"{prop}: {value!r} before {end!r}"] = repeated(before, piece, after)
    for value, end in product(_VALUES, _ENDS):
        before, after = b"<style>p{color:", f"{end}}}</style><p>a".encode()
        made[f"rule: {value!r} before {end!r}"] = repeated(before, value.encode(), after)
        made[f"prelude: {value!r} before {end!r}"] = repeated(
            b"<style>p", value.encode(), f"{end}{{color:#fff}}</style><p>a".encode()
        )
    return made


def _rules_and_elements(rule: bytes, element: bytes) -> Callable[[int], bytes]:
    """As many rules as elements, each of which is selected by all rules."""

    def made(n: int) -> bytes:
        rules = b"".join(rule % i if b"%d" in rule else rule for i in range(n))
        return b"<style>" + rules + b"</style>" + element * n

    return made


def _tests_of_attributes(n: int) -> bytes:
    """Rules that search a long attribute."""
    rules = b"".join(b"p[title*=q%d]{display:none}" % i for i in range(n))
    return b"<style>" + rules + b"</style><p title='" + b"a" * (30 * n) + b"'>b"


def _links_of_a_base(n: int) -> bytes:
    """A base of many parts, and links that are joined with it."""
    return b"<base href=http://a.org/" + b"a/" * n + b">" + b"<a href=b>c</a>" * min(n, 190)


def _opened(tag: str) -> bytes:
    """A tag with an attribute that is distinct."""
    return b"<%b x=%%d>" % tag.encode()


def _links_around(n: int) -> bytes:
    """At most 190 links, each in the table of the one before, around a text of URLs."""
    return b"<a href=http://a.org><table><tr><td>" * min(n, 190) + b"://a " * n


def _rejected_around(n: int) -> bytes:
    """The same around a text that has none, but nearly."""
    return b"<a href=http://a.org><table><tr><td>" * min(n, 190) + b"awww.a " * n


def _many_fonts(n: int) -> bytes:
    """Half of the tags are open fonts, which each paragraph opens again."""
    opened = b"".join(b"<font size=%d>" % i for i in range(n))
    return b"<p>" + opened + b"</p>" + b"<p>a</p>" * n


def _many_attributes(n: int) -> bytes:
    """Tags with as many attributes as are read."""
    tag = b"<p " + b" ".join(b"a%d" % i for i in range(490)) + b">"
    return tag * n


def _hidden_around(n: int) -> bytes:
    """At most 1,900 hidden elements, each in the one before, around a text."""
    return b"<div hidden>" * min(n, 1900) + b"word " * n


def _made() -> dict[str, Construct]:
    made: dict[str, Callable[[int], bytes]] = {
        f"attributes, {name}": repeated(b"<p", each, b">a") for name, each in _ATTRIBUTES.items()
    }
    made |= {name: repeated(*each) for name, each in _OTHERS.items()}
    for tag in TAGS:
        name = tag.encode()
        made[f"{tag} in {tag}"] = repeated(b"", b"<%b>a" % name)
        made[f"{tag} by {tag}"] = repeated(b"", b"<%b>a</%b>" % (name, name))
    for first in PAIRED:
        for second in PAIRED:
            made[f"{first} and {second}"] = repeated(b"", _opened(first) + b"a" + _opened(second))
            made[f"{first} around {second}"] = repeated(
                b"", _opened(first) + b"a" + _opened(second) + b"</%b>" % first.encode()
            )
    made["links around URLs"] = _links_around
    made["links around a text"] = _rejected_around
    made["paragraphs with open fonts"] = _many_fonts
    made["tags with attributes"] = _many_attributes
    made["hidden around a text"] = _hidden_around
    made["rules of all elements"] = _rules_and_elements(b".a{font-size:0}", b"<p class=a>b")
    made["distinct rules of all elements"] = _rules_and_elements(
        b".a,.b%d{font-size:0}", b"<p class=a>b"
    )
    made["rules in rules of all elements"] = _rules_and_elements(
        b".a p,i .b%d{font-size:0}", b"<p class=a>b"
    )
    made["tests of attributes"] = _tests_of_attributes
    made["links of a base"] = _links_of_a_base
    made |= {f"style, {name}": each for name, each in _styles().items()}
    return {f"HTML, {name}": Construct(_mail(make), mail_document) for name, make in made.items()}


def _mail(make: Callable[[int], bytes]) -> Callable[[int], bytes]:
    return lambda n: HTML + make(n)


MARKUPS = _made()

"""The documentation has one word for a thing, and not the idiom in which it was once written.

Rule: one pattern of `IDIOM` is one phrase that a reader has to decode, with what to write instead.
The last column of the glossary in docs/ARCHITECTURE.md has the words that its terms replace.
The pages are searched, and the docstrings, comments and messages of the code. Code, links, names of
parameters and outputs of commands are not prose.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from functools import cache

from tests.lint.sources import PACKAGES, Finding, Rules, Source, pages, source, under

__all__ = ["RULES", "files"]

# Pattern -> what to write instead.
IDIOM = {
    r"(?:is|are|was|were) none": "not; no; is not supported",
    r"(?:told|tells?)": "reported, logged, shown; distinguish (for: told apart)",
    r"said": "predicted, published, reported",
    r"(?:speaks for|who speaks|speaks? from)": "is evidence for; is champion",
    r"anew": "again; restarts; starts empty",
    r"begins? again": "restarts; starts from",
    r"lets? go": "releases, evicts",
    r"(?:go|goes|went|going) on": "continues",
    r"what it is of": "name the thing",
    r"what (?:came|comes) (?:of|behind)": "the result of; the records after",
    r"behind (?:it|them|that)": "after it",
    r"half as fast again": "50 % faster",
    r"(?:hangs?|hanging) on": "depends on, affects",
    r"(?:lie|lies|lay) (?:in|behind|where|there)": "is in, is after",
    r"stands? (?:in|there|beside|below|above|behind)": "is in, is below",
    r"for good": "permanently",
    r"for want of": "for lack of",
    r"of late": "recently; over the last 100 labels",
    r"the world": "the stream",
    r"(?:whoever|whosoever|he or she)": "everybody who; the process that",
    r"vouch\w*": "holds a hash of",
    r"condemn\w*": "reject",
    r"foretell\w*": "predict",
    r"by turns": "in turn",
    r"but for": "except; if not for",
    r"besides": "also; in addition",
    r"(?:pass|passes|passed|passing) over": "skip",
    r"(?:at|in) hand": "current",
    r"to speak of": "almost no",
    r"(?:not any more|no more)": "no longer",
    r"as it (?:puts|put) it": "quote it",
    r"nobody's": "unused; of no",
    r"one too many": "beyond the bound",
    r"as (?:it|they) (?:stands?|came|comes?)": "the present; before it was changed",
    r"used up": "overwritten",
    r"cut short": "truncated",
    r"leaves? no trace": "has no effect",
    r"spoil\w*": "makes unusable",
    r"as probable as anywhere": "use all classes",
    r"some (?:\d+|six|ten|twenty|forty) times": "about",
    r"so many (?:classes|values|bytes|records)": "that many; at most `n`",
    r"(?:record|class|value|feature|prediction|row|step) a (?:class|row|step|feature)": "for each",
    r"makes? no sense": "is not valid",
    r"one behind the other": "one after the other",
    r"in the midst of": "during",
    r"gone on": "continued",
    r"(?:it|there) is none": "there is no …; it is not …",
    r"of its own word": "name what it reports",
    r"believ\w*": "weighs; trusts; ignores",
}

MOST_TERMS = 60  # of the glossary: more is nothing that a reader learns
GLOSSARY = source("docs/ARCHITECTURE.md")


def glossary(page: Source) -> dict[str, list[str]]:
    """Each term of the glossary of a page, with the words that it replaces.

    Examples
    --------
    >>> head = "## Glossary\\n\\n| term | meaning | not |\\n|---|---|---|"
    >>> glossary(Source("a.md", f"# A\\n\\n{head}\\n| fence | take over | `oust` |"))
    {'fence': ['oust']}
    """
    table = page.text.partition("\n## Glossary\n")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {term: re.findall(r"`([^`]+)`", replaced) for term, _, replaced in rows}


# A phrase may go over the end of a line. Most texts have none, so one search for all comes first.
PATTERNS = {
    re.compile(rf"\b(?:{phrase})\b".replace(" ", r"\s+"), re.IGNORECASE): instead
    for phrase, instead in {
        **IDIOM,
        **{f"{word}s?": term for term, words in glossary(GLOSSARY).items() for word in words},
    }.items()
}
ANY = re.compile("|".join(pattern.pattern for pattern in PATTERNS), re.IGNORECASE)


@cache
def read() -> list[Source]:
    """The pages and the changelog."""
    return [source("CHANGELOG.md"), *pages()]


@cache
def programs() -> list[Source]:
    """The code with its scripts, without the tests."""
    return under("*.py", *PACKAGES, "benchmarks", "docker", "docs")


def files() -> list[str]:
    """The pages and the programs."""
    return [file.path for file in (*read(), *programs())]


def newlines(match: re.Match[str]) -> str:
    """The ends of lines in what is left out, so that all that follows keeps its line."""
    return "\n" * match[0].count("\n")


def prose(text: str) -> str:
    """The text without blocks and spans of code, links and markup, line by line.

    Examples
    --------
    >>> prose("It *is*\\n[here](x.md), in `a`.")
    'It is\\n[here], in .'
    """
    text = re.sub(r"^```.*?^```", newlines, text, flags=re.MULTILINE | re.DOTALL)
    return plain(re.sub(r"^    .*$", "", text, flags=re.MULTILINE))


def plain(text: str) -> str:
    """The text without spans of code, links and markup, line by line. `None` is a value.

    Examples
    --------
    >>> plain("None is\\n[not](x.md) `a`.")
    ' is\\n[not] .'
    """
    return re.sub(r"`[^`]*`|\bNone\b|(?<=\])\([^)]*\)|\*", newlines, text)


def words(file: Source) -> Iterator[tuple[list[int], str]]:
    """Docstrings up to their examples, messages without their values, and comments, each with the
    line of each of its lines.

    A line of names only is no prose: parameters in a docstring, the keys of a table.

    Examples
    --------
    >>> text = "def f(x):\\n    raise E(f'no {x} here')  # and\\n    # why\\n"
    >>> list(words(Source("a.py", text)))
    [([2], 'no … here'), ([2, 3], ' and\\n why')]
    """
    messages = file.all(ast.JoinedStr)
    inside = {id(part) for message in messages for part in message.values}
    for node in messages:
        parts = [p.value if isinstance(p, ast.Constant) else "…" for p in node.values]
        yield lines_of(node), plain("".join(map(str, parts)))
    for node in file.all(ast.Constant):
        if isinstance(node.value, str) and id(node) not in inside:
            text = re.split(r"Examples\n *---", node.value)[0]
            text = re.sub(r"^ *[\w*]+(, [\w*]+)*( : .*)?$", "", text, flags=re.MULTILINE)
            yield lines_of(node), plain(text)
    tokens = tokenize.generate_tokens(io.StringIO(file.text).readline)
    found = [token for token in tokens if token.type == tokenize.COMMENT]
    text = "\n".join(token.string.replace("#", "") for token in found)
    yield [token.start[0] for token in found], plain(text)


def lines_of(node: ast.expr) -> list[int]:
    """The lines of a text, of which one in the source may give several."""
    return [*range(node.lineno, (node.end_lineno or node.lineno) + 1)]


def idioms(text: str) -> Iterator[tuple[int, str]]:
    """Each phrase of `IDIOM` in the text: after how many lines, its context, what to write."""
    if not ANY.search(text):
        return
    for pattern, instead in PATTERNS.items():
        for found in pattern.finditer(text):
            around = text[max(0, found.start() - 30) : found.end() + 30]
            advice = f"…{around}…: instead of {found[0]!r} write: {instead}"
            yield text.count("\n", 0, found.start()), advice


def phrases(sources: Sequence[Source]) -> Iterator[Finding]:
    """A newcomer reads each sentence of a page once."""
    for file in sources:
        for after, advice in idioms(prose(file.text)):
            yield file.finding(1 + after, advice)


def comments(sources: Sequence[Source]) -> Iterator[Finding]:
    """A maintainer reads each sentence of the code once, too."""
    for file in sources:
        for lines, text in words(file):
            for after, advice in idioms(text):
                yield file.finding(lines[min(after, len(lines) - 1)], advice)


def terms(page: Source) -> Iterator[Finding]:
    """The glossary is short, and what one of its terms replaces is no term of another one."""
    known = glossary(page)
    line = page.line_of("## Glossary")
    if not 0 < len(known) <= MOST_TERMS:
        yield page.finding(line, f"{len(known)} terms, 1 to {MOST_TERMS} are allowed; merge some")
    names = {name for term in known for name in term.split(", ")}
    for term, replaced in known.items():
        for word in names & {*replaced}:
            yield page.finding(line, f"{term!r} replaces {word!r}, which is a term; remove one")


RULES: Rules = {phrases: read, comments: programs, terms: lambda: GLOSSARY}

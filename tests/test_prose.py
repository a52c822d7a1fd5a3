"""The documentation is spelled correctly, and free of the idiom in which it was once written.

Rule: one pattern of `IDIOM` is one phrase that a reader has to decode, with what to write instead.
The test searches `PAGES`, and the docstrings, comments and messages of `PROGRAMS`. Code, links,
names of parameters and outputs of commands are not prose.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

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
    r"journal entr(?:y|ies)": "journal record",
    r"one behind the other": "one after the other",
    r"in the midst of": "during",
    r"gone on": "continued",
    r"(?:it|there) is none": "there is no …; it is not …",
    r"of its own word": "name what it reports",
    r"believ\w*": "weighs; trusts; ignores",
}
PAGES = [
    page
    for page in [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").glob("**/*.md")),
    ]
    # Decisions are history, written in the words of their time.
    if not (page.parent.name == "decisions" and page.name[0] == "0")
]
PROGRAMS = [
    folder
    for package in ("stream", "consumers", "headwater", "benchmarks", "docker", "docs")
    for folder in (ROOT / package, *sorted((ROOT / package).rglob("*/")))
    if any(folder.glob("*.py"))
]


def prose(text: str) -> str:
    """The text without blocks and spans of code, links and markup, on one line.

    Examples
    --------
    >>> prose("It *is*\\n[here](x.md), in `a`.")
    'It is [here], in .'
    """
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return plain(re.sub(r"^    .*$", "", text, flags=re.MULTILINE))


def plain(text: str) -> str:
    """The text without spans of code, links and markup, on one line. `None` is a value.

    Examples
    --------
    >>> plain("None is\\n[not](x.md) `a`.")
    'is [not] .'
    """
    text = re.sub(r"`[^`]*`|\bNone\b", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return " ".join(text.replace("*", "").split())


def words(source: str) -> Iterator[str]:
    """Docstrings up to their examples, messages without their values, and comments.

    A line of names only is no prose: parameters in a docstring, the keys of a table.

    Examples
    --------
    >>> list(words("def f(x):\\n    raise E(f'no {x} here')  # and\\n    # why\\n"))
    ['no … here', 'and why']
    """
    tree = ast.parse(source)
    inside = {id(part) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in n.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "…" for p in node.values]
            yield plain("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = inspect.cleandoc(node.value).split("Examples\n---")[0]
            if id(node) not in inside:
                yield plain(re.sub(r"^ *[\w*]+(, [\w*]+)*( : .*)?$", "", text, flags=re.MULTILINE))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = (token.string for token in tokens if token.type == tokenize.COMMENT)
    yield plain(" ".join(comments).replace("#", ""))


def idioms(text: str) -> Iterator[str]:
    """Each phrase of `IDIOM` in the text, with its context and what to write instead."""
    for pattern, instead in IDIOM.items():
        for found in re.finditer(rf"\b{pattern}\b", text, re.IGNORECASE):
            around = text[max(0, found.start() - 30) : found.end() + 30]
            yield f"…{around}…: instead of {found[0]!r} write: {instead}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documentation_is_free_of_private_idiom(page: Path) -> None:
    """A newcomer reads each sentence once."""
    assert list(idioms(prose(page.read_text()))) == []


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_code_is_free_of_private_idiom(folder: Path) -> None:
    """A maintainer reads each sentence once, too."""
    found = [
        f"{path.name}: {idiom}"
        for path in sorted(folder.glob("*.py"))
        for text in words(path.read_text())
        for idiom in idioms(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    "sentence",
    [
        "A fall of an error is none.",
        "It tells when one has changed, and lets the model begin anew.",
        "No choice between actions hangs on it.",
        "He passes over what lies in it.",
    ],
)
def test_check_of_idiom_finds_what_stood_there_before(sentence: str) -> None:
    """The check can fail: sentences that the pages once had."""
    assert list(idioms(sentence))


def test_documentation_is_spelled_correctly() -> None:
    """Codespell's list of common misspellings, over all but the tests; [tool.codespell] has the
    exceptions."""
    packages = ["stream", "consumers", "headwater"]
    paths = ["README.md", "CHANGELOG.md", "docs", *packages, "docker", "benchmarks"]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *paths], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr

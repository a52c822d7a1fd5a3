"""The documentation is spelled correctly, and free of the idiom in which it was once written.

Rule: one pattern of `IDIOM` is one phrase that a reader has to decode, with what to write instead.
Pages are searched, the docstrings and comments of `CODE`, and of `PACKAGES` the messages too.
Code, links, names of parameters and outputs of commands are not prose and are not searched.
"""

from __future__ import annotations

import ast
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
}
# Decisions are history, written in the words of their time. The others wait for their rewriting:
# take a page off when it is done.
NOT_YET = {
    "ARCHITECTURE.md",
    "README.md",
    "performance.md",
    "reliability.md",
}
PAGES = [
    page
    for page in [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").glob("**/*.md")),
    ]
    if page.name not in NOT_YET and not (page.parent.name == "decisions" and page.name[0] == "0")
]
CODE = sorted((ROOT / "stream").rglob("*.py"))
# Their docstrings, comments and messages are finished. Add a package when it is done.
PACKAGES = [
    f"consumers/{name}"
    for name in (
        *("base", "cluster", "journal", "service", "shard", "snapshots", "timetravel"),
        "transports",
    )
]


def prose(text: str) -> str:
    """The text without blocks and spans of code, links and markup, on one line.

    Examples
    --------
    >>> prose("It *is*\\n[here](x.md), in `a`.")
    'It is [here], in .'
    """
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return " ".join(text.replace("*", "").split())


def prose_of_code(source: str) -> Iterator[str]:
    """Docstrings up to their examples, and comments.

    Examples
    --------
    >>> list(prose_of_code("'What it is.'\\nx = 1  # and why\\n"))
    ['What it is.', 'and why']
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = (ast.get_docstring(node) or "").split("Examples\n---")[0]
            yield re.sub(r"^[\w*]+(, [\w*]+)*( : .*)?$\n?", "", text, flags=re.MULTILINE)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.removeprefix("# ")


def idioms(text: str) -> Iterator[str]:
    """Each phrase of `IDIOM` in the text, with its context and what to write instead."""
    for pattern, instead in IDIOM.items():
        for found in re.finditer(rf"\b{pattern}\b", text, re.IGNORECASE):
            around = text[max(0, found.start() - 30) : found.end() + 30]
            yield f"…{around}…: instead of {found[0]!r} write: {instead}"


def words(source: str) -> Iterator[str]:
    """Each comment and each text of a program: docstrings, and messages without their values.

    Examples
    --------
    >>> list(words('raise E(f"no {x} here")  # why'))
    ['why', 'no … here']
    """
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")
    tree = ast.parse(source)
    inside = {id(part) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in n.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            )
        elif id(node) not in inside and isinstance(node, ast.Constant):
            yield node.value if isinstance(node.value, str) else ""


@pytest.mark.parametrize("package", PACKAGES)
def test_code_is_free_of_private_idiom(package: str) -> None:
    """Nor do its docstrings, comments and messages need a second reading."""
    found = [
        f"{path.relative_to(ROOT)}: {idiom}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in words(path.read_text())
        for idiom in idioms(prose(re.sub(r"^ *>>>.*$|^    ", "", text, flags=re.MULTILINE)))
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documentation_is_free_of_private_idiom(page: Path) -> None:
    """A newcomer reads each sentence once."""
    assert list(idioms(prose(page.read_text()))) == []


@pytest.mark.parametrize("file", CODE, ids=lambda file: str(file.relative_to(ROOT)))
def test_docstrings_and_comments_are_free_of_private_idiom(file: Path) -> None:
    """A maintainer reads each sentence once, too. (None is a value, not a riddle.)"""
    texts = [re.sub(r"`[^`]*`|None", "", text) for text in prose_of_code(file.read_text())]

    assert [found for text in texts for found in idioms(" ".join(text.split()))] == []


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
    paths = ["README.md", "CHANGELOG.md", "docs", "stream", "consumers", "docker", "benchmarks"]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *paths], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr

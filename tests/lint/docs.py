"""The pages agree with what they link to, with the commands, and with each other."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from os.path import normpath
from pathlib import PurePath

import typer
from typer.core import TyperCommand

from consumers.base.errors import DEAD_LETTER_REASONS
from consumers.cli import application
from headwater.cli import COMMANDS, MORE
from tests.lint.sources import ROOT, Finding, Rules, Source, pages, product, source, under

__all__ = ["RULES", "command_lines", "files"]

MOST_LINES, MOST_WORDS = 100, 700  # of the README


def units() -> list[Source]:
    """The services of systemd."""
    return under("*.service", "docker/systemd")


def files() -> list[str]:
    """The pages and the units."""
    return [file.path for file in (*pages(), *units())]


def linked(page: Source, path: str) -> str:
    """The file of the tree that a relative link of a page means; itself by an empty one."""
    return normpath(PurePath(page.path).parent / path) if path else page.path


def links(sources: Sequence[Source]) -> Iterator[Finding]:
    """Links lead to files of the repository; other hosts are not asked."""
    for page in sources:
        for found in re.finditer(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.text):
            if "://" not in found[1] and not (ROOT / linked(page, found[1])).exists():
                text = f"the link to {found[1]} leads nowhere; name a file relative to the page"
                yield page.finding(page.at(found.start()), text)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of the headings of a page.

    Examples
    --------
    >>> sorted(anchors("# A `b`-c, d\\n```\\n# no heading\\n```\\n## 3. Ask\\n## 3. Ask\\n"))
    ['3-ask', '3-ask-1', 'a-b-c-d']
    """
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.append(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return {
        slug if n == found.index(slug) else f"{slug}-{found[:n].count(slug)}"
        for n, slug in enumerate(found)
    }


def headings(sources: Sequence[Source]) -> Iterator[Finding]:
    """Anchors of links are headings, by GitHub's rule; tests/test_site.py follows the site's."""
    known = {page.path: anchors(page.text) for page in sources}
    for page in sources:
        for found in re.finditer(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.text):
            path = linked(page, found[1])
            if "://" in found[1] or not path.endswith(".md"):
                continue
            if path not in known and (ROOT / path).exists():  # or else `links` has found it
                known[path] = anchors(source(path).text)
            if found[2] not in known.get(path, {found[2]}):
                text = f"{path} has no heading #{found[2]}; link to one that it has"
                yield page.finding(page.at(found.start()), text)


def cited(sources: Sequence[Source]) -> Iterator[Finding]:
    """A page that code or another page names by its path exists, and so does its heading."""
    citation = re.compile(r"\b(docs/[\w./-]*\w\.md)(?:#([\w-]*\w))?|\b[Dd]ecisions? (\d{4})\b")
    for file in sources:
        for found in citation.finditer(file.text):
            path, heading, number = found.groups()
            line = file.at(found.start())
            if number:
                yield file.finding(line, f"{found[0]!r} is no page; name docs/decisions/….md#…")
            elif not (ROOT / path).exists():
                yield file.finding(line, f"there is no {path}; name a page of the documentation")
            elif heading and heading not in anchors(source(path).text):
                yield file.finding(line, f"{path} has no heading #{heading}; name one that it has")


def named(sources: Sequence[Source]) -> Iterator[Finding]:
    """A file that a page names by its path exists."""
    for page in sources:
        for found in re.finditer(
            r"`((?:stream|consumers|tests|docs|docker)/[\w./-]+\.\w+)`", page.text
        ):
            if not (ROOT / found[1]).exists():
                text = f"there is no file {found[1]}; name the one that has it now"
                yield page.finding(page.at(found.start()), text)


def tables(sources: Sequence[Source]) -> Iterator[Finding]:
    """A table begins with its head: a row after an empty line is shown as text."""
    for page in sources:
        plain = re.sub(
            r"^```.*?^```", lambda code: code[0].count("\n") * "\n", page.text, flags=re.M | re.S
        )
        lines = ["", *plain.splitlines(), ""]
        for number, line in enumerate(lines):
            begins = line.startswith("|") and not lines[number - 1].startswith("|")
            if begins and not re.fullmatch(r"[-:| ]+", lines[number + 1]):
                yield page.finding(number, "a row without a table; remove the line before it")


def command_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line and arguments of each `headwater` command in the blocks of a page, fenced or indented.

    Examples
    --------
    >>> list(command_lines("\\n    headwater run a.toml --drain   # once"))
    [(2, ['run', 'a.toml', '--drain'])]
    """
    shell = None  # of the block: None outside of blocks
    lines = enumerate(text.splitlines(), 1)
    for number, line in lines:
        if fence := re.match(r"```(\S*)", line):
            shell = fence[1] in ("", "sh") if shell is None else None
        elif shell or line.startswith("    "):
            while line.endswith("\\"):
                line = f"{line[:-1]} {next(lines)[1]}"
            if match := re.match(r" *(?:\$ )?(?:\S*/)?headwater ((?:[a-z]|--).*)", line):
                yield number, shlex.split(match[1].split(" | ")[0], comments=True)


def started(unit: str) -> Iterator[tuple[int, list[str]]]:
    """Line and arguments of each `headwater` command that a unit of systemd starts."""
    for number, line in enumerate(unit.splitlines(), 1):
        if match := re.match(r"ExecStart=\S+/headwater (.*)$", line):
            yield number, match[1].split()


@cache
def command(name: str) -> TyperCommand:
    """The command of this name, with its options."""
    group = typer.main.get_command(application(name, MORE))
    return group.commands[name]  # type: ignore[attr-defined]


def refusal(given: Sequence[str]) -> str:
    """Why there is no such command, or no such option; empty where it may be given."""
    name, *arguments = given
    if name not in COMMANDS:
        return f"there is no command {name!r}"
    known = command(name)
    try:
        known.make_parser(known.context_class(known)).parse_args(list(arguments))
    except Exception as error:  # of a kind that not all versions of typer name
        return str(error)
    return ""


def commands(sources: Sequence[Source]) -> Iterator[Finding]:
    """Commands exist, with each option that is shown, and a value where it takes one."""
    for file in sources:
        found = command_lines if file.path.endswith(".md") else started
        for line, given in found(file.text):
            if why := refusal(given):
                shown = f"headwater {shlex.join(given)}"
                yield file.finding(line, f"{shown}: {why}; show what the command takes")


def installed() -> list[Source]:
    """Where people read what to install."""
    return [*pages(), *product(), *under("*.py", "examples")]


def citing() -> list[Source]:
    """All that names pages by their path; the tests of the rules name some that do not exist."""
    code = [*product(), *under("*.py", "benchmarks", "tests"), source("pyproject.toml")]
    rules = ("tests/lint/docs.py", "tests/lint/test_rules.py")
    return [source("CHANGELOG.md"), *pages(), *(file for file in code if file.path not in rules)]


def extras(sources: Sequence[Source]) -> Iterator[Finding]:
    """What pip is given works in a clone: the project is on no index, and its extras exist."""
    declared = tomllib.loads(source("pyproject.toml").text)["project"]["optional-dependencies"]
    for file in sources:
        for found in re.finditer(r"(headwater|'\.)\[([a-z]+(?:,[a-z]+)*)\]", file.text):
            line = file.at(found.start())
            if found[1] == "headwater":
                yield file.finding(line, f"{found[0]} is on no index; write '.[{found[2]}]'")
            for name in found[2].split(","):
                if name not in declared:
                    yield file.finding(line, f"there is no extra {name!r}; name one that there is")


def numbers(text: str) -> list[str]:
    """The numbers in a text, without commas between digits.

    Examples
    --------
    >>> numbers("2 of 10,000, which is 0.02 %.")
    ['2', '10000', '0.02']
    """
    return re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", text))


def face(readme: Source) -> Iterator[Finding]:
    """The README is short, and the page that a reason links to has the reason's figures."""
    lines, words = len(readme.text.splitlines()), len(readme.text.split())
    if lines > MOST_LINES or words > MOST_WORDS:
        text = f"{lines} lines and {words} words, {MOST_LINES} and {MOST_WORDS} are allowed"
        yield readme.finding(1, f"{text}; move what is not for a first look to docs/start.md")
    reasons = readme.text.partition("\n## Why\n")[2].partition("\n## ")[0]
    for reason in re.findall(r"^- (.*?)(?=^- |\Z)", reasons, re.DOTALL | re.MULTILINE):
        path = linked(readme, re.findall(r"\]\(([^)#]+)", reason)[-1])
        known = [float(number) for number in numbers(source(path).text)]
        for number in numbers(re.sub(r"\]\([^)]*\)", "]", reason)):
            digits = len(number.partition(".")[2])
            if all(round(each, digits) != float(number) for each in known):
                text = f"{path} has no figure {number}; show one that it has"
                yield readme.finding(readme.line_of(reason[:30]), text)


def figures(page_and_measured: tuple[Source, Source]) -> Iterator[Finding]:
    """The figures of a page are those that docs/performance.md has."""
    page, measured = page_and_measured
    rows = [[cell.strip() for cell in line.split("|")] for line in measured.text.splitlines()]
    ((beside, seconds),) = [
        (float(r[3].removesuffix(" ×").replace(",", "")), float(r[4].removesuffix(" µs")))
        for r in rows
        if r[1:2] == ["GaussianNB, d = 8"] and r[2].endswith("river")
    ]
    (mixture,) = [
        float(r[4].removesuffix(" µs")) for r in rows if r[1:2] and r[1].startswith("auto, d = 8")
    ]
    shown = " ".join(page.text.split())
    for piece, sentence in {
        "runs eight learners": f"`auto`, which runs eight learners, needs {mixture:.0f} µs",
        "river's loop": f"in {seconds:.1f} µs, {beside:,.0f} × as fast as river's loop",
    }.items():
        if sentence not in shown:
            text = f"write {sentence!r}, which {measured.path} has measured"
            yield page.finding(page.line_of(piece), text)


def reasons(page: Source) -> Iterator[Finding]:
    """The table of dead letters explains every reason, and no reason that there is not."""
    head = "| reason | |\n|---|---|\n"
    line = page.line_of(head)
    rows = page.text.split(head)[1].split("\n\n")[0].splitlines()
    explained = [row.split("`")[1] for row in rows]
    for reason in {*DEAD_LETTER_REASONS} - {*explained}:
        yield page.finding(line, f"the table has no row of the reason {reason!r}; explain it")
    for at, reason in enumerate(explained):
        if reason not in DEAD_LETTER_REASONS or reason in explained[:at]:
            text = f"{reason!r} is no reason of a dead letter, or explained twice; remove the row"
            yield page.finding(line + 2 + at, text)


RULES: Rules = {
    links: pages,
    headings: pages,
    cited: citing,
    named: pages,
    tables: pages,
    commands: lambda: [*pages(), *units()],
    extras: installed,
    face: lambda: source("README.md"),
    figures: lambda: (source("docs/learners.md"), source("docs/performance.md")),
    reasons: lambda: source("docs/records.md"),
}

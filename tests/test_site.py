"""The documentation as a site: it builds without a warning, and every link of it leads somewhere.

Sphinx checks references between the Markdown pages and their headings; what it made is read again
here, because a link in HTML, an included page or the theme could still be wrong.
"""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import stream
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[1]


class Page(HTMLParser):
    """What a page links to, and the anchors it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.targets += [value for key in ("href", "src") if (value := given.get(key))]
        self.anchors |= {value for key in ("id", "name") if (value := given.get(key))}


def broken(site: Path) -> list[str]:
    """Links to files or anchors of the site that do not exist; other hosts are not asked."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[there].anchors if there in pages else set()
            if not there.is_file() or (parts.fragment and unquote(parts.fragment) not in anchors):
                found.append(f"{path.relative_to(site.resolve())}: {target}")
    return found


def built(made: Path) -> Path:
    """The site, built as docs/contributing.md says."""
    strictly = ["-W", "--keep-going", "-n", "-q"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *strictly, ROOT / "docs", made],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert done.returncode == 0, done.stderr
    return made


def test_site_is_whole(tmp_path: Path) -> None:
    """Every page, every public name with an anchor, and no link that leads nowhere."""
    site = built(tmp_path)
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    anchors = set().union(*(Page(path).anchors for path in (site / "reference").glob("*.html")))

    assert pages
    assert [page for page in pages if not (site / page).with_suffix(".html").is_file()] == []
    assert [name for name in stream.__all__ if f"headwater.{name}" not in anchors] == []
    assert broken(site) == []


def test_check_of_links_finds_a_missing_file_and_a_missing_heading(tmp_path: Path) -> None:
    """The check can fail."""
    (tmp_path / "a.html").write_text('<h1 id="here">A</h1><a href="b.html#there">b</a>')
    (tmp_path / "b.html").write_text('<a href="a.html#here">a</a> <img src="c.png">')

    assert broken(tmp_path) == ["a.html: b.html#there", "b.html: c.png"]

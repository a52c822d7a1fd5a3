"""Writes all that is made from the code, in seconds: `python docs/make_pages.py`.

That is config.md, metrics.md, routes.md and join.md, the tables of learners.md and quality.md, and
the Grafana dashboards.
"""

from __future__ import annotations

import runpy
from pathlib import Path

from consumers.config import docs as config
from consumers.telemetry import metrics
from consumers.web import routes
from stream.evaluate.table import formulas
from stream.learner.registry import tables

DOCS = Path(__file__).parent


def made() -> dict[Path, str]:
    """Each of them with its text, from the code of today."""
    texts = {}
    for name, tabled in (("learners", tables), ("quality", formulas)):
        page = DOCS / f"{name}.md"
        texts[page] = tabled(page.read_text(encoding="utf-8"))
    pages = {
        "config": config.page(),
        "metrics": metrics.page(),
        "routes": routes.page(),
        "join": join(),
    }
    for name, text in pages.items():
        texts[DOCS / f"{name}.md"] = text
    script = DOCS.parent / "docker/grafana/make_dashboards.py"
    return texts | runpy.run_path(str(script))["files"]()


def join() -> str:
    """The page of the join, which has a script of its own."""
    return str(runpy.run_path(str(DOCS / "make_join_page.py"))["page"]())


def main() -> None:
    """Write each of them again."""
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes all that is made from the code, in seconds: `python docs/make_pages.py`.

That is docs/config.md, docs/metrics.md, docs/join.md, the tables of docs/learners.md and
docs/quality.md, and the Grafana dashboards.
"""

from __future__ import annotations

import runpy
from pathlib import Path

from consumers.config import docs as config
from consumers.telemetry import metrics
from stream.evaluate.table import formulas
from stream.learner.registry import tables

DOCS = Path(__file__).parent


def main() -> None:
    """Write each page again."""
    for name, tabled in (("learners", tables), ("quality", formulas)):
        page = DOCS / f"{name}.md"
        page.write_text(tabled(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, made in (("config", config.page), ("metrics", metrics.page)):
        (DOCS / f"{name}.md").write_text(made(), encoding="utf-8")
    for script in (DOCS / "make_join_page.py", DOCS.parent / "docker/grafana/make_dashboards.py"):
        runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()

"""Every query of docker/ and what a real Prometheus said to it: `python -m tests.long.dashboards`.

It runs what compose.yaml runs, without containers, and writes docs/dashboards.md. Ends with 1 where
a query gets no data.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import date
from pathlib import Path

from tests.docker.live import (
    BUDGET,
    Answer,
    answers,
    of_budget,
    of_history,
    of_mail,
    of_reporters,
    started,
)
from tests.docker.queries import ROOT, alerts, panels, recorded
from tests.kafka.broker import running_broker
from tests.waiting import PATIENCE

PAGE = ROOT / "docs/dashboards.md"
HEAD = """\
# Every query, and what it returned

<!-- Written by `python -m tests.long.dashboards`; do not edit. -->

This page lists all queries of both dashboards, all recording rules and all alerts, with the number
of series that each returned and the value of the first one. Prometheus scraped headwater on a Kafka
broker with river's ImageSegments (2,310 records, labels two seconds late), two broken records and
fifty records without a label. Alerts are queried with `bool`, so an alert that does not fire
returns 0. Queries of a budget were sent to the same service with such a budget. Queries of mail, of
reporters and of an hour ago are left out: this service has none. Last run: {date}.

| where | query | series | value |
|---|---|---|---|
"""


def _row(answer: Answer) -> str:
    expression = " ".join(answer.query.expression.split()).replace("|", "\\|")
    return f"| {answer.query.where} | `{expression}` | {answer.series} | {answer.example:.6g} |"


def main() -> int:
    """Write the page."""
    every = (*panels(), *recorded(), *alerts())
    queries = [q for q in every if not (of_mail(q) or of_reporters(q) or of_history(q))]
    found: list[Answer] = []
    with running_broker() as bootstrap:
        for budget in (False, True):
            asked = [query for query in queries if of_budget(query) == budget]
            with (
                tempfile.TemporaryDirectory(prefix="headwater-dashboards-") as directory,
                started(Path(directory), bootstrap, BUDGET if budget else ()) as stack,
            ):
                found += answers(stack.prometheus, asked, seconds=PATIENCE)
    rows = "\n".join(_row(answer) for answer in found)
    PAGE.write_text(HEAD.format(date=date.today().isoformat()) + rows + "\n", encoding="utf-8")
    silent = [answer.query.where for answer in found if not answer.series]
    sys.stdout.write(f"{len(found)} queries, {len(silent)} without data {silent or ''}\n")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())

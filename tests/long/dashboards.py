"""Every query of docker/ and what a real Prometheus said to it: `python -m tests.long.dashboards`.

It runs what compose.yaml runs, without containers, and writes docs/dashboards.md. Ends with 1 where
a query gets no data.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import date
from pathlib import Path

from tests.docker.live import BUDGET, Answer, answers, asked, started
from tests.docker.queries import ROOT
from tests.kafka.broker import running_broker
from tests.long.table import say
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
reporters, of keys, of a mix and of an hour ago are left out: this service has none. Last run:
{date}.

| where | query | series | value |
|---|---|---|---|
"""


def _row(answer: Answer) -> str:
    expression = " ".join(answer.query.expression.split()).replace("|", "\\|")
    return f"| {answer.query.where} | `{expression}` | {answer.series} | {answer.example:.6g} |"


def main() -> int:
    """Write the page."""
    found: list[Answer] = []
    with running_broker() as bootstrap:
        for budget in (False, True):
            queries = asked(budget)
            say(f"a service with{'' if budget else 'out'} a budget, for {len(queries)} queries")
            with (
                tempfile.TemporaryDirectory(prefix="headwater-dashboards-") as directory,
                started(Path(directory), bootstrap, BUDGET if budget else ()) as stack,
            ):
                say(f"it is fed; each query is sent again until it has data, {PATIENCE:.0f} s long")
                found += answers(stack.prometheus, queries, seconds=PATIENCE)
    rows = "\n".join(_row(answer) for answer in found)
    PAGE.write_text(HEAD.format(date=date.today().isoformat()) + rows + "\n", encoding="utf-8")
    silent = [answer.query.where for answer in found if not answer.series]
    sys.stdout.write(f"{len(found)} queries, {len(silent)} without data {silent or ''}\n")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())

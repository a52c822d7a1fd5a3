"""Every query of docker/ and what a real Prometheus said to it: `python -m tests.long.dashboards`.

It runs what compose.yaml runs, without containers. Ends with 1 where a query gets no data. Queries
of mail, of reporters, of keys, of a mix and of an hour ago are left out: this service has none.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docker.live import BUDGET, Answer, answers, asked, started
from tests.kafka.broker import running_broker
from tests.long.table import say
from tests.waiting import PATIENCE


def main() -> int:
    """Print the queries without data, and how many have some."""
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
    silent = [answer.query.where for answer in found if not answer.series]
    sys.stdout.write(f"{len(found)} queries, {len(silent)} without data {silent or ''}\n")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())

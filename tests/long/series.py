"""A million records with ten thousand labels, and the series of a scrape: 1 if above the bound.

`python -m tests.long.series [RECORDS]`
"""

from __future__ import annotations

import sys
import time

from tests.telemetry.test_series import exposition, series
from tests.telemetry.views import MOST_SERIES


def main(arguments: list[str]) -> int:
    """Feed them and count."""
    records = int(arguments[0]) if arguments else 1_000_000
    started = time.monotonic()
    found = series(exposition(records))
    seconds = time.monotonic() - started
    sys.stdout.write(f"{len(found)} series after {records:,} records, {seconds:.0f} s\n")
    return int(len(found) > MOST_SERIES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

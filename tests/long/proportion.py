"""Inputs that grow 2, 4 and 8 times in one construct: python -m tests.long.proportion [NAME …].

Each of some thousand constructs of mails, HTML, JSON, requests, Avro, Protobuf and Arrow. The
processor may need at most 1.3 times as long as in proportion to the bytes, and of other inputs of
the construct little may stay in memory. NAME: only the constructs whose names begin so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.consumers.growing.kept import kept
from tests.consumers.growing.mails import ENVELOPES, MAILS
from tests.consumers.growing.markup import MARKUPS
from tests.consumers.growing.records import RECORDS
from tests.consumers.growing.rule import LARGEST, too_steep
from tests.long.table import Row, add_write, report, say

CONSTRUCTS = MAILS | ENVELOPES | MARKUPS | RECORDS
FAULT = (
    "inputs that grow 2, 4 and 8 times in one construct, and do not stay, `tests.long.proportion`"
)


def main() -> int:
    """Walk the constructs; 1 if the time of one grows faster than its bytes, or memory stays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[""], metavar="NAME")
    parser.add_argument("--largest", type=int, default=LARGEST, help="bytes of an input")
    add_write(parser)
    options = parser.parse_args()
    row = Row(FAULT, 0)
    kinds, slowest, began = Counter[str](), (0.0, ""), time.monotonic()
    for name, construct in CONSTRUCTS.items():
        if not name.startswith(tuple(options.names)):
            continue
        try:
            wrong, seconds = too_steep(construct, options.largest)
            wrong = "; ".join(filter(None, (wrong, kept(construct))))
        except Exception as error:  # whoever reads it would end
            wrong, seconds = f"{type(error).__name__}: {error}", 0.0
        row.count += 1
        row.add([f"{name}: {wrong}"] if wrong else [])
        kinds[name.partition(",")[0]] += 1
        slowest = max(slowest, (seconds, name))
        if wrong or row.count % 100 == 0:
            say(f"{row.count:,} constructs, {len(row.violations)} violations {wrong and name}")
    how = ", ".join(f"{kind} {count:,}" for kind, count in kinds.items())
    return report(
        options,
        row,
        f"{how}; up to {options.largest:,} bytes; the slowest, {slowest[1]}, took "
        f"{slowest[0] * 1000:.0f} ms; {time.monotonic() - began:.0f} s",
    )


if __name__ == "__main__":
    sys.exit(main())

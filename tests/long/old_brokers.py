"""Contract and fault suites on old and new Kafka: python -m tests.long.old_brokers [--faults N].

Each release runs as one node by Maven and Java, in a process of its own. Ends with 1 where a test
fails on one of them. `--faults N` also kills the service N times on each (`tests.long.kills`).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from datetime import UTC, datetime

RELEASES = ("3.3.2", "3.9.1", "4.1.0")
SUITES = (
    "tests/contract",
    "tests/kafka/test_kafka_guards.py",
    "tests/faults/test_guards.py",
    "tests/kafka/test_impossible_timestamp.py",
    "tests/kafka/test_hanging_transactions.py",
    "tests/kafka/test_codecs.py",
)


def main() -> int:
    """Run them all; 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", nargs="+", default=RELEASES)
    parser.add_argument("--faults", type=int, default=0, help="kills of the service a release")
    parser.add_argument("--select", default="kafka", help="which tests, as pytest's -k")
    options = parser.parse_args()
    failed = False
    for release in options.releases:
        code, told = _ran(release, ["-m", "pytest", "-q", "-n", "0", "-k", options.select, *SUITES])
        failed |= code != 0
        today = datetime.now(UTC).date().isoformat()
        print(f"| {today} | Kafka {release} | {_counted(told)} |", flush=True)  # noqa: T201
        if options.faults:
            kills = ["-m", "tests.long.kills", "--kills", str(options.faults), "--print"]
            failed |= _ran(release, kills)[0] != 0
    return int(failed)


def _ran(release: str, arguments: list[str]) -> tuple[int, str]:
    """Exit code and output of a Python with this release as its broker; shown as it comes."""
    environment = {k: v for k, v in os.environ.items() if k != "KAFKA_BOOTSTRAP_SERVERS"}
    told = []
    with subprocess.Popen(
        [sys.executable, *arguments],
        env=environment | {"HEADWATER_TEST_KAFKA": release},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stderr.write(line)
            told.append(line)
    return process.returncode, "".join(told)


def _counted(told: str) -> str:
    """What pytest says at the end of itself."""
    found = re.findall(r"^(?:=+ )?(\d+ (?:passed|failed).*?)(?: =+)?$", told, re.MULTILINE)
    return found[-1] if found else "no test has run"


if __name__ == "__main__":
    sys.exit(main())

"""JSON lines in a directory, for tests and for feeds of machines without a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from consumers.transports.registry import KeyHeaders, Transport, unknown_transport

if TYPE_CHECKING:
    from consumers.transports.protocol import Log

__all__ = ["TRANSPORT"]


def _open(path: str, _: Mapping[str, object], key_headers: KeyHeaders) -> Log:
    if not path:
        raise unknown_transport("jsonl:")
    from consumers.transports.jsonl.log import JsonLinesLog

    return JsonLinesLog(path, key_headers=key_headers)


_NOTES = """\
`jsonl:DIR` keeps records as text, for tests and for machines without a network.
`DIR/TOPIC/0.jsonl` is partition 0 of a topic, and each line is a record. To feed a service,
append lines with any program that writes whole lines. Make the topic with `headwater check CONFIG
--create`, or make the files yourself:

```sh
mkdir -p feed/visits && touch feed/visits/0.jsonl
echo '{"id": "a1", "pages": 3}' >> feed/visits/0.jsonl
echo '{"timestamp": 1700000000000, "key": "a2", "value": {"pages": 7}}' >> feed/visits/0.jsonl
```

- A line is a record if it is an object with a `value` (a text, an object or null) and otherwise
  only `timestamp` (ms), `key`, `headers`, `offset` or `base64`. Every other line is the value
  itself. Wrap an observation whose own fields look like that; give one with 500 brackets or more
  as a text.
- A line without `timestamp` is at time 0. Give timestamps if `[labels] horizon` or the order of
  several partitions matters.
- The offset of a record is the number of its line. Never remove or change a line. A running
  service ends if a file was replaced or cut: it compares its last consumed lines, as after an
  election, and the last line again before each read. An incomplete last line is not read until
  its newline is there.
- Key and value are in base64 if one of them is not UTF-8; the line then has `"base64": true`.
- After `kill -9` no prediction is lost, but those of the last commit can be there twice, with the
  same bytes.
- The owner of a shard holds a lock on a file in `DIR/@owners`. A second `headwater run` ends with
  exit code 3 while the first one runs, and so do `promote` and `rollback`. Use a file system that
  has locks (`flock`)."""


TRANSPORT = Transport(
    scheme="jsonl",
    form="jsonl:DIR",
    about="text files in a directory, relative to this file",
    pattern=r"(?!//).+",
    open=_open,
    transactions=False,
    takes_over=False,
    names_path=True,
    notes=_NOTES,
)

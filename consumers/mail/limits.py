"""The bounds of a mail that is read. What is beyond them is left out and counted as `cut`."""

from __future__ import annotations

__all__ = [
    "DEEPEST",
    "ENCODED_WORDS",
    "LARGEST_MAIL",
    "LARGEST_MARKUP",
    "LONGEST_HEADER",
    "LONGEST_SHORT",
    "LONGEST_TEXT",
    "MOST_HOPS",
    "MOST_LINKS",
    "MOST_PARTS",
    "MOST_TAGS",
    "MOST_VALUES",
    "SLOW_BYTES",
    "SLOW_CONTAINERS",
]

LARGEST_MAIL = 1 << 20  # bytes; the rest is most likely an attachment
SLOW_BYTES = 1 << 17  # the same for the slow reader
MOST_PARTS = 200
DEEPEST = 16  # levels of parts
ENCODED_WORDS = 500  # in a mail: the fast parser needs time quadratic in them
SLOW_CONTAINERS = 20  # parts with parts: the slow parser recurses into them

MOST_VALUES = 50  # of one header
LONGEST_HEADER = 2000  # characters of a value
MOST_HOPS = 10  # `Received` headers
MOST_LINKS = 200

LARGEST_MARKUP = 1 << 18  # characters of an HTML part
MOST_TAGS = 4000  # of an HTML part: its parser needs time quadratic in their depth
LONGEST_TEXT = 1 << 16  # characters of the visible text
LONGEST_SHORT = 1 << 13  # characters of each other field

"""The bounds of a mail that is read. What is beyond them is left out and counted as `cut`."""

from __future__ import annotations

__all__ = [
    "DEEPEST",
    "ENCODED_WORDS",
    "LARGEST_MAIL",
    "LARGEST_MARKUP",
    "LONGEST_HEADER",
    "LONGEST_SHORT",
    "LONGEST_SHOWN",
    "LONGEST_TEXT",
    "MOST_ATTRIBUTES",
    "MOST_HOPS",
    "MOST_LINKS",
    "MOST_OPTIONS",
    "MOST_PARTS",
    "MOST_REPEATS",
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
LONGEST_SHOWN = 500  # characters of the text of a link, in which an address is looked for

LARGEST_MARKUP = 1 << 18  # characters of an HTML part
MOST_TAGS = 4000  # of an HTML part: its parser needs time quadratic in their depth
MOST_ATTRIBUTES = 500  # of a tag, and of all `html` and `body`: each is compared with all others
MOST_OPTIONS = 500  # of an HTML part: each is compared with all others of its list
# Distinct tags such as `<font size=2>`, over all tags of an HTML part: those that are not closed
# are repeated in each paragraph, up to three times each.
MOST_REPEATS = 50_000
LONGEST_TEXT = 1 << 16  # characters of the visible text
LONGEST_SHORT = 1 << 13  # characters of each other field

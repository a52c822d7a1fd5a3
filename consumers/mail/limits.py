"""The bounds of a mail that is read. What is beyond them is left out and counted as `cut`.

Rule: they bound work, and they cut attachments before text. The bytes of an attachment are not
read and count nowhere.
"""

from __future__ import annotations

__all__ = [
    "DEEPEST",
    "FEWEST_MATCHES",
    "LARGEST_MARKUP",
    "LARGEST_TEXT",
    "LONGEST_BASE",
    "LONGEST_HEADER",
    "LONGEST_NUMBER",
    "LONGEST_SHORT",
    "LONGEST_SHOWN",
    "LONGEST_TEXT",
    "LONGEST_VALUE",
    "MOST_ATTRIBUTES",
    "MOST_BRACKETS",
    "MOST_CLIMBS",
    "MOST_HOPS",
    "MOST_LINKS",
    "MOST_MATCHES",
    "MOST_OPTIONS",
    "MOST_PARTS",
    "MOST_REPEATS",
    "MOST_RULES",
    "MOST_TAGS",
    "MOST_TESTS",
    "MOST_VALUES",
]

LARGEST_TEXT = 1 << 21  # bytes of all texts of a mail, as they are in it
MOST_PARTS = 2000
DEEPEST = 16  # mails that are encoded inside each other

MOST_VALUES = 50  # of one header
LONGEST_VALUE = 1 << 16  # bytes of a header that are decoded
LONGEST_HEADER = 2000  # characters of a value
MOST_HOPS = 10  # `Received` headers
MOST_LINKS = 200
LONGEST_SHOWN = 500  # characters of the text of a link, in which an address is looked for

LARGEST_MARKUP = 1 << 20  # characters of all HTML parts
# Of an HTML part. Of more tags only their text and links are read: a parser needs time quadratic in
# the depth of tags.
MOST_TAGS = 4000
MOST_ATTRIBUTES = 500  # of a tag, and of all `html` and `body`: each is compared with all others
MOST_OPTIONS = 500  # of an HTML part: each is compared with all others of its list
# Distinct tags such as `<font size=2>`, over all tags of an HTML part: those that are not closed
# are repeated in each paragraph, up to three times each.
MOST_REPEATS = 50_000
MOST_RULES = 2000  # selectors of an HTML part that may hide something
MOST_CLIMBS = 200_000  # elements around others that are looked at for them
# Elements that they select, each counted for each of its rules. In HTML of fewer characters it is
# their number and FEWEST_MATCHES, because rules of all elements are the square of the part.
MOST_MATCHES = 200_000
FEWEST_MATCHES = 2000
MOST_TESTS = 200  # tests of attributes in them, each of which may search all attributes
MOST_BRACKETS = 100  # that a style opens: its parser calls itself for each inside another
LONGEST_NUMBER = 1000  # digits of a number in a style; Python refuses to read more than 4300
LONGEST_BASE = 2000  # characters of a base, which is joined with each link
LONGEST_TEXT = 1 << 16  # characters of the visible text
LONGEST_SHORT = 1 << 13  # characters of each other field

"""Features of text for linear learners: words, byte 4-grams and pairs of tokens, as hashed sets.

Rule: `named_features` is the definition. `features` computes the same keys in compiled loops. The
order of a row's features depends on the row only, so fields are sorted by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from math import frexp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Rows
from stream.remembered import remembered
from stream.text._kernels import features as kernels
from stream.text._kernels.features import (
    CASED,
    DIGIT,
    DROPPED,
    FIELDS,
    GOLDEN,
    GRAMS,
    HIDDEN,
    IDEOGRAPH,
    INVISIBLE,
    LATIN,
    LETTERS,
    MIXER,
    MOST_BYTES,
    MOST_PAIRED,
    NEXT,
    NEXT_BUT_ONE,
    PAIRS,
    SENT,
    SHAPE,
    SIGN,
    SPACE,
    START,
    TOKEN,
    UPPER,
    VIEWS,
    WIDEST,
    WORDS,
)
from stream.text._kernels.occurrences import BETWEEN, JOINED, ONE, OTHER, TWO
from stream.text.characters import characters, entry_of

__all__ = [
    "MOST_CHARACTERS",
    "VIEWS",
    "Features",
    "Named",
    "Parts",
    "TextSources",
    "Texts",
    "features",
    "features_in",
    "group_of",
    "named_features",
    "occurrences",
    "of_texts",
    "pieces",
    "read",
    "sizes",
]

MOST_CHARACTERS = 2**15  # of each text
# Parts of a text without letters: between its tokens, and what cannot be seen.
SPACES, UNSEEN_CHARACTERS = "(space)", "(invisible characters)"
MASK = 2**64 - 1
# Of this process, as that of Python's hash of texts. No result depends on it.
SECRET = np.uint64(hash("places of keys") & MASK | 1)
TOGETHER = 2**18  # characters whose features are computed in one call
# Texts of a mail that say how it was sent. They say one thing in many words, and another thing in
# another archive, so they have views of their own, whose weights begin low.
SENT_FIELDS = frozenset({"received", "headers", "structure"})
NOTHING, NOBODY = np.zeros(0, dtype=np.uint32), np.zeros(2, dtype=np.int64)  # other fields


class Features(NamedTuple):
    """View v of row r has key[start[r · VIEWS + v]] … key[start[r · VIEWS + v + 1] - 1].

    key uint32 (k,): never 0, each once in a view. start int64 (rows · VIEWS + 1,).
    """

    key: NDArray[np.uint32]
    start: NDArray[np.int64]


class Named(NamedTuple):
    """A feature in its view, with the field and the part of the text that it stands for.

    span: the words in lower case, shared by all features of them. written: another text for each
    feature of the field and view. places: first and last + 1 of its tokens in the text; empty if it
    has none.
    """

    view: int
    key: int
    field: str
    span: str
    written: str
    places: tuple[tuple[int, int], ...]

    @property
    def id(self) -> int:
        """View and key as one number, which no other feature has, except by collisions of keys."""
        return self.view << 32 | self.key


def mixed(h: int, x: int) -> int:
    """See the kernel."""
    h = (h ^ x) * GOLDEN & MASK
    return h ^ h >> 29


def key_of(h: int, salt: int) -> int:
    """See the kernel."""
    return max((mixed(h, salt) * MIXER & MASK) >> 32, 1)


@lru_cache(maxsize=1024)
def salts(name: str) -> tuple[int, ...]:
    """What distinguishes the features of a field, for each view."""
    h = hash_of(name)
    return tuple(mixed(mixed(h, view), GOLDEN) for view in range(SENT))


def shift_of(name: str) -> int:
    """What is added to the views of a text field.

    Examples
    --------
    >>> shift_of("text"), shift_of("headers")
    (0, 4)
    """
    return SENT if name in SENT_FIELDS else 0


def hash_of(text: str) -> int:
    """The hash of a name or value, as written."""
    h = TOKEN
    for c in text:
        h = mixed(h, ord(c))
    return h


class Texts(NamedTuple):
    """The texts and other fields of some rows, for kernels.

    code int32 (characters,): the code points of all texts; end int64 (t,): the end of each text.
    salt uint64 (t, SENT): of its field. shift int64 (t,): added to its views. Row r has the texts
    of_row[r] … of_row[r + 1] - 1, int64 (rows + 1,), and the keys other[others[r]] …
    other[others[r + 1] - 1], uint32 and int64 (rows + 1,), of its other fields. most: characters of
    a row at most. room: features at most. secret: see `place_by` of the kernels.
    """

    code: NDArray[np.int32]
    end: NDArray[np.int64]
    salt: NDArray[np.uint64]
    shift: NDArray[np.int64]
    of_row: NDArray[np.int64]
    other: NDArray[np.uint32]
    others: NDArray[np.int64]
    most: int
    room: int
    secret: np.uint64


class TextSources(NamedTuple):
    """Where the features of some rows come from: the text column and the characters of each text,
    and the field of each other key."""

    column: NDArray[np.int64]
    texts: list[str]
    others: list[str]


def read(rows: Rows, used: NDArray[np.int64]) -> tuple[Texts, TextSources]:
    """The texts and other fields of the rows at `used`; O(characters + fields)."""
    n, (place, salts_of, shifts) = used.size, _texts_of(tuple(rows.text_names))
    if n == 1:  # a call with one record, of which each step counts
        cells = rows.text[used[0]][place].tolist()
    else:
        cells = rows.text[np.ix_(used, place)].ravel().tolist()
    found = [k for k, cell in enumerate(cells) if cell is not None]
    texts = [cells[k][:MOST_CHARACTERS] for k in found]
    size = np.array([len(text) for text in texts], dtype=np.int64)
    at = np.array(found, dtype=np.int64)
    if n == 1:
        column, most = at, int(size.sum())
        of_row = np.array((0, at.size), dtype=np.int64)
    else:
        row, column = at // max(place.size, 1), at % max(place.size, 1)
        most = int(np.bincount(row, weights=size, minlength=n).max(initial=0))
        of_row = np.searchsorted(row, np.arange(n + 1)).astype(np.int64)
    whole = "".join(texts).encode("utf-32-le", "surrogatepass")
    other, others, names = _of_fields(rows, used)
    room = int(np.minimum(4 * size, MOST_BYTES).sum() + 7 * size.sum()) + len(texts) + other.size
    code = np.frombuffer(whole, dtype="<i4")
    of_texts = np.cumsum(size), salts_of[column], shifts[column]
    read = Texts(code, *of_texts, of_row, other, others, most, room, SECRET)
    return read, TextSources(place[column], texts, names)


def features(rows: Rows, used: NDArray[np.int64]) -> Features:
    """The features of the rows at `used`; O(characters + fields).

    Examples
    --------
    >>> rows = Rows.from_dicts([{"text": "free money"}], strings="text")
    >>> features(rows, np.zeros(1, dtype=np.int64)).start.tolist()
    [0, 2, 12, 17, 17, 17, 17, 17]
    """
    return features_in(read(rows, used)[0])


def features_in(texts: Texts) -> Features:
    """The features of each row of `texts`."""
    code, end, salt, shift, of_row, other, others, most, room, secret = texts
    key = np.empty(room + 1, dtype=np.uint32)
    start = np.zeros((of_row.size - 1) * VIEWS + 1, dtype=np.int64)
    of_texts = code, end, salt, shift, of_row, other, others
    kernels.features(*of_texts, characters(), most, secret, key, start)
    return Features(key[: start[-1]], start)


def group_of(names: list[str]) -> NDArray[np.uint64]:
    """What stands for each of these fields, as for a part of a text."""
    return np.array([salts(name)[FIELDS] for name in names], dtype=np.uint64)


class Parts:
    """Names of parts of records, as `occurrences` has field and span.

    Parameters
    ----------
    sources
        Where the features come from.
    names
        The columns of texts.
    """

    def __init__(self, sources: TextSources, names: Sequence[str]) -> None:
        self._sources = sources
        self._fields = [f"{names[k]}: " for k in sources.column.tolist()]
        plain = (text.isascii() and "'" not in text for text in sources.texts)
        # In lower case as a whole, if no character changes its place or is dropped.
        self._lower = [t.lower() if p else "" for t, p in zip(sources.texts, plain, strict=True)]

    def name(self, t: int, kind: int, a: int, b: int, c: int, d: int) -> str:
        """The name of a part, by its numbers in `stream.text._kernels.occurrences`."""
        if kind == OTHER:
            return self._sources.others[t]
        field, whole = self._fields[t], self._lower[t]
        if kind == ONE:
            return field + (whole[a:b] or _lower(self._sources.texts[t][a:b]))
        if kind == TWO:
            if whole:
                return f"{field}{whole[a:b]} {whole[c:d]}"
            text = self._sources.texts[t]
            return f"{field}{_lower(text[a:b])} {_lower(text[c:d])}"
        if kind == JOINED:
            entries = map(entry_of, self._sources.texts[t][a:b])
            return field + "".join(chr(e >> 20 & 0xFFFFF) for e in entries if (e >> 40) & LATIN)
        return field + (SPACES if kind == BETWEEN else UNSEEN_CHARACTERS)


def _lower(token: str) -> str:
    """A token in lower case, without the dropped characters."""
    if token.isascii() and "'" not in token:
        return token.lower()
    entries = map(entry_of, token)
    return "".join(chr(e & 0xFFFFF) for e in entries if (e >> 40) & 7 != DROPPED)


def of_texts(x: Mapping[Any, Any]) -> tuple[Features, int] | None:
    """The features of a record that has texts only, and how many of them are cut; None for another
    record. The same as by `Rows`, in a fifth of the time.

    Examples
    --------
    >>> found, cut = of_texts({"text": "free money"})
    >>> found.start.tolist(), cut, of_texts({"n": 1})
    ([0, 2, 12, 17, 17, 17, 17, 17], 0, None)
    """
    if type(x) is not dict or not x:
        return None
    for name, text in x.items():
        if type(name) is not str or type(text) is not str:
            return None
    names = tuple(x) if len(x) == 1 else tuple(sorted(x))
    texts = [x[name][:MOST_CHARACTERS] for name in names]
    size = [*map(len, texts)]
    room = sum(min(4 * n, MOST_BYTES) + 7 * n + 1 for n in size)
    code = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<i4")
    end = np.array([*accumulate(size)], dtype=np.int64)
    of_row = np.array((0, len(size)), dtype=np.int64)
    _, salt, shift = _texts_of(names)
    read = Texts(code, end, salt, shift, of_row, NOTHING, NOBODY, sum(size), room, SECRET)
    cut = sum(n == MOST_CHARACTERS < len(x[name]) for n, name in zip(size, names, strict=True))
    return features_in(read), cut


@lru_cache(maxsize=256)
def _texts_of(
    names: tuple[str, ...],
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
    """The places of text columns in the order of their names, their salts, (n, SENT), and what is
    added to their views."""
    place = sorted(range(len(names)), key=names.__getitem__)
    salt = np.array([salts(names[k]) for k in place], dtype=np.uint64).reshape(-1, SENT)
    shift = np.array([shift_of(names[k]) for k in place], dtype=np.int64)
    return np.array(place, dtype=np.int64), salt, shift


def _of_fields(
    rows: Rows, used: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64], list[str]]:
    """The keys of categories and numbers of the rows at `used`, where each row begins, and the
    field of each key."""
    keys: list[int] = []
    names: list[str] = []
    start = [0]
    for i in used.tolist() if rows.categorical_names or rows.numeric_names else ():
        for found in _named_fields(rows, i):
            keys.append(found.key)
            names.append(found.field)
        start.append(len(keys))
    if len(start) == 1:
        start = [0] * (used.size + 1)
    return np.array(keys, dtype=np.uint32), np.array(start, dtype=np.int64), names


def _named_fields(rows: Rows, i: int) -> Iterator[Named]:
    """The features of the categories and numbers of row i."""
    categories = zip(rows.categorical_names, rows.categorical[i].tolist(), strict=True)
    for name, value in sorted((name, value) for name, value in categories if value is not None):
        yield Named(FIELDS, _category_key(value, name), name, "", value, ())
    numbers = zip(rows.numeric_names, rows.numeric[i].tolist(), strict=True)
    for name, x in sorted((name, x) for name, x in numbers if x == x):
        for part in _parts(x):
            yield Named(FIELDS, _category_key(part, name), name, "", _shown(part), ())


@remembered(2**14)
def _category_key(value: str, name: str) -> int:
    return key_of(hash_of(value), salts(name)[FIELDS])


def _parts(x: float) -> tuple[str, ...]:
    """The bins of a number: its sign and octave, and its half of that octave.

    Examples
    --------
    >>> _parts(3.0), _parts(0.0), _parts(-0.3)
    (('+2', '+2b'), ('0',), ('--1', '--1a'))
    """
    if x == 0.0:
        return ("0",)
    fraction, exponent = frexp(abs(x))
    octave = f"{'-' if x < 0 else '+'}{exponent}"
    return octave, f"{octave}{'b' if fraction >= 0.75 else 'a'}"


def _shown(part: str) -> str:
    """A bin of `_parts` as a range of numbers.

    Examples
    --------
    >>> _shown("+2"), _shown("+2b"), _shown("0"), _shown("--1a")
    ('2 to 4', '3 to 4', '0', '-0.375 to -0.25')
    """
    if part == "0":
        return part
    sign, octave, half = part[0], int(part[1:].rstrip("ab")), part[-1]
    low, high = 2.0 ** (octave - 1), 2.0**octave
    low, high = (low * 1.5 if half == "b" else low), (low * 1.5 if half == "a" else high)
    return f"{low:g} to {high:g}" if sign == "+" else f"{-high:g} to {-low:g}"


def named_features(rows: Rows, i: int) -> list[Named]:
    """The features of row i, in the order of `features`, each where it occurs first.

    Examples
    --------
    >>> rows = Rows.from_dicts([{"text": "FREE v1agra"}], strings="text")
    >>> [found.span for found in named_features(rows, 0) if found.view == 0]
    ['free', 'free', 'v1agra', 'v1agra', 'v1agra']
    """
    by_view: list[dict[int, Named]] = [{} for _ in range(VIEWS)]
    for found in occurrences(rows, i):
        by_view[found.view].setdefault(found.key, found)
    return [found for view in by_view for found in view.values()]


def occurrences(rows: Rows, i: int) -> Iterator[Named]:
    """The features of row i, as often as they occur; those of a view in their order.

    Examples
    --------
    >>> rows = Rows.from_dicts([{"text": "Free, FREE"}], strings="text")
    >>> [(found.written, *found.places) for found in occurrences(rows, 0) if found.view == 0]
    [('free', (0, 4)), (',', (4, 5)), ('free', (6, 10)), ('FREE', (6, 10))]
    """
    texts = zip(rows.text_names, rows.text[i].tolist(), strict=True)
    for name, whole in sorted((name, text) for name, text in texts if text is not None):
        text = whole[:MOST_CHARACTERS]
        tokens = list(_tokens(text))
        yield from _words_and_pairs(name, text, tokens)
        yield from _grams(name, text, tokens)
    yield from _named_fields(rows, i)


class _Token(NamedTuple):
    """A token of a text as its characters, without the dropped ones, in lower case too, and their
    entries; it is text[begin:end]."""

    kind: int
    text: str
    lower: str
    entries: list[int]
    begin: int
    end: int

    @property
    def place(self) -> tuple[int, int]:
        """Where it is in the text."""
        return self.begin, self.end

    def hash(self, start: int = TOKEN) -> int:
        """See `hash_of` of the kernels."""
        h = TOKEN if start == INVISIBLE else start
        for c, entry in zip(self.text, self.entries, strict=True):
            h = mixed(h, _read(ord(c), entry, start))
        return h

    def spelled(self, start: int) -> str:
        """What `hash` hashes."""
        if start == TOKEN:
            return self.lower
        pairs = zip(self.text, self.entries, strict=True)
        return "".join(chr(_read(ord(c), entry, start)) for c, entry in pairs)

    def written(self, start: int) -> str:
        """The same, with # for a digit of the shape."""
        if start != SHAPE:
            return self.spelled(start)
        return "".join(
            "#" if (entry >> 40) & DIGIT else chr(entry & 0xFFFFF) for entry in self.entries
        )

    def count(self, flag: int) -> int:
        """How many characters have this flag."""
        return sum((entry >> 40) & flag != 0 for entry in self.entries)


def _read(c: int, entry: int, start: int) -> int:
    """What of a character is hashed."""
    if start == CASED:
        return c
    if start == INVISIBLE:
        return entry >> 20 & 0xFFFFF
    return 48 if start == SHAPE and (entry >> 40) & DIGIT else entry & 0xFFFFF


def _tokens(text: str) -> Iterator[_Token]:
    """Runs of word characters and runs of signs; each character of a script without spaces."""
    token = _Token(SPACE, "", "", [], 0, 0)
    for at, c in enumerate(text):
        entry = entry_of(c)
        kind = (entry >> 40) & 7
        if kind == DROPPED:
            token = token._replace(end=at + 1)
            continue
        if kind != token.kind or kind == IDEOGRAPH:
            if token.text:
                yield token
            token = _Token(kind, "", "", [], at, at)
        if kind != SPACE:
            lower, entries = token.lower + chr(entry & 0xFFFFF), [*token.entries, entry]
            token = _Token(kind, token.text + c, lower, entries, token.begin, at + 1)
    if token.text:
        yield token


def _words_and_pairs(name: str, text: str, tokens: list[_Token]) -> Iterator[Named]:
    """Words and pairs of tokens of a text."""
    words, pairs, shift = salts(name)[WORDS], salts(name)[PAIRS], shift_of(name)
    joined: list[_Token] = []
    before: list[tuple[int, _Token | None]] = [(START, None)]
    for i, token in enumerate(tokens):
        size, digits, upper = len(token.text), token.count(DIGIT), token.count(UPPER)
        starts = [TOKEN, SHAPE] if digits else [TOKEN]
        starts += [CASED] if upper >= WIDEST and upper + digits == size else []
        spelled = token.spelled(TOKEN)
        if token.count(LATIN) and token.spelled(INVISIBLE) != spelled:
            starts.append(INVISIBLE)
        for start in starts:
            key, written = key_of(token.hash(start), words), token.written(start)
            yield Named(shift + WORDS, key, name, spelled, written, (token.place,))
        if size == 1 and token.count(LATIN):
            joined.append(token)
        elif token.kind != SIGN or size > 1:
            yield from _joined(name, joined)
            joined = []
        if i >= MOST_PAIRED:
            continue
        h = token.hash(starts[bool(digits)])
        key = key_of(h, pairs)
        yield Named(shift + PAIRS, key, name, spelled, _in_pair(token), (token.place,))
        for distance, (other, first) in zip((NEXT, NEXT_BUT_ONE), before[::-1], strict=False):
            key = key_of(mixed(mixed(other, distance), h), pairs)
            yield _pair(key, name, first, token, distance)
        before = [*before[-1:], (h, token)]
    yield from _joined(name, joined)
    if any((entry_of(c) >> 40) & HIDDEN for c in text):
        what = UNSEEN_CHARACTERS
        yield Named(shift + WORDS, key_of(INVISIBLE, words), name, what, what, ())


def _in_pair(token: _Token) -> str:
    """A token as pairs read it."""
    return token.written(SHAPE if token.count(DIGIT) else TOKEN)


def _pair(key: int, name: str, first: _Token | None, token: _Token, distance: int) -> Named:
    """Two tokens; `first` is None at the start of the text."""
    view, before = shift_of(name) + PAIRS, "(start)" if first is None else _in_pair(first)
    written = f"{before} {'… ' * (distance == NEXT_BUT_ONE)}{_in_pair(token)}"
    if first is None:
        return Named(view, key, name, token.spelled(TOKEN), written, (token.place,))
    span = f"{first.spelled(TOKEN)} {token.spelled(TOKEN)}"
    return Named(view, key, name, span, written, (first.place, token.place))


def _joined(name: str, letters: list[_Token]) -> Iterator[Named]:
    """The word of single letters in a row, if they are many."""
    if len(letters) >= LETTERS:
        spelled = "".join(token.spelled(INVISIBLE) for token in letters)
        h = TOKEN
        for c in spelled:
            h = mixed(h, ord(c))
        places = tuple(token.place for token in letters)
        key = key_of(h, salts(name)[WORDS])
        yield Named(shift_of(name) + WORDS, key, name, spelled, spelled, places)


def _grams(name: str, text: str, tokens: list[_Token]) -> Iterator[Named]:
    """The 4-grams of a text, each with the word in which it begins."""
    salt, view = salts(name)[GRAMS], shift_of(name) + GRAMS
    window, done, begins = 0, 0, []
    of_character: list[_Token | None] = [None] * len(text)
    for token in tokens:
        of_character[token.begin : token.end] = [token] * (token.end - token.begin)
    for at, c in enumerate(text):
        entry = entry_of(c)
        if (entry >> 40) & HIDDEN:
            continue
        encoded = chr(entry & 0xFFFFF).encode("utf-8", "surrogatepass")
        if done + len(encoded) > MOST_BYTES:
            return
        for byte in encoded:
            window = (window << 8 | byte) & 0xFFFFFFFF
            begins.append(at)
            done += 1
            first = begins[max(done - 4, 0)]
            word = next((of_character[k] for k in range(first, at + 1) if of_character[k]), None)
            span = SPACES if word is None else word.spelled(TOKEN)
            written = window.to_bytes(4, "big").lstrip(b"\0").decode("utf-8", "backslashreplace")
            places = () if word is None else (word.place,)
            yield Named(view, key_of(window, salt), name, span, f"‹{written}›", places)


def sizes(rows: Rows) -> NDArray[np.int64]:
    """The characters of each text, (rows, texts)."""
    size = [len(cell or "") for cell in rows.text.ravel().tolist()]
    return np.array(size, dtype=np.int64).reshape(rows.text.shape)


def pieces(characters: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and last + 1 of steps whose rows have at most `TOGETHER` characters together, or that
    are one step."""
    end = np.cumsum(characters)
    first = done = 0
    while first < end.size:
        last = max(first + 1, int(np.searchsorted(end, done + TOGETHER, side="right")))
        yield first, last
        first, done = last, int(end[last - 1])

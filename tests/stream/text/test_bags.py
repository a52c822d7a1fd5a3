"""The tokens of rows are those of each row alone, encoded or not."""

from __future__ import annotations

from random import Random

import numpy as np

from stream.data.block import Rows
from stream.text.bags import encode, hashed_bags, hashed_texts
from tests.seed import seeds

WORDS = ("free", "money", "Zürich", "日本語", "a", "x" * 400, "1", "")
LONG = " ".join(f"w{k}" for k in range(70_000))  # is truncated


def texts_of(rng: Random, n: int) -> list[str]:
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(0, 9))) for _ in range(n)]
    return [LONG if rng.random() < 0.05 else text for text in texts]


@seeds(0.1)
def test_one_text_a_row_gives_its_tokens_in_order(seed: int) -> None:
    """Encoded, not encoded, and some of each, which takes the general way."""
    rng = Random(seed)
    texts = texts_of(rng, rng.randint(1, 12))
    plain = Rows.from_dicts([{"t": text} for text in texts], strings="text")
    encoded = hashed_texts(plain)
    mixed = Rows.from_dicts([{"t": text} for text in texts], strings="text")
    mixed.text[::2] = encoded.text[::2]
    used = np.array([rng.randrange(len(texts)) for _ in range(9)], dtype=np.int64)
    one_by_one = [encode(texts[k]) for k in used]
    expected = [cells.tolist() for cells in one_by_one]

    for rows in (plain, encoded, mixed):
        bags = hashed_bags(rows, used)
        found = [
            [bags.bucket[a:b].tolist(), bags.times[a:b].tolist()]
            for a, b in zip(bags.start[:-1], bags.start[1:], strict=True)
        ]
        assert found == expected
        assert bags.times.dtype == np.float64
    assert all(cell.flags.owndata and cell.flags.c_contiguous for cell in encoded.text.ravel())

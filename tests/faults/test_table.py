"""A long run adds its row to the page, wherever else the page has tables."""

from __future__ import annotations

import pytest

from tests.long.table import HEAD, PAGE, Row, add_row


def test_row_stands_at_the_end_of_the_table_of_faults() -> None:
    """The page as it is takes one; what follows the table stays behind it."""
    page = PAGE.read_text()
    row = Row("a fault", 7, code="2026-11-21 20:30")
    row.add(["predictions: 1 missing: x", "state: y", "values: z", "it ended with 1"], [1.0, 3.0])

    before, _, after = add_row(page, row).partition(row.text())

    assert HEAD in before
    assert before.splitlines()[-1].startswith("| 20")
    assert after.startswith("\n")
    assert before + after == page
    assert "| a fault | 7 | 1 | 0 | 2 | 1 | 2.00 s / 2.98 s |" in row.text()


def test_page_without_the_table_is_refused() -> None:
    """Rather than written somewhere."""
    with pytest.raises(AssertionError, match="no table of faults"):
        add_row("# Reliability\n", Row("a fault", 1, code=""))

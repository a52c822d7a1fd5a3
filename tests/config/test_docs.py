"""docs/config.md is the model's own text."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from consumers.config import Config, docs
from consumers.config.load import section_of

KEYS = [
    pytest.param(key, inner, id=f"{section}.{key}")
    for section, field in Config.model_fields.items()
    if (kind := section_of(field.annotation)) is not None
    for key, inner in kind.model_fields.items()
]


def test_committed_page_is_current() -> None:
    """`python docs/make_pages.py` was run after the last change."""
    committed = Path(__file__).parents[2] / docs.PAGE

    assert committed.read_text(encoding="utf-8") == docs.page(), "run docs/make_pages.py"


@pytest.mark.parametrize(("key", "field"), KEYS)
def test_every_key_states_its_meaning_and_the_reason_of_its_default(
    key: str, field: FieldInfo
) -> None:
    """One sentence says what it is, another why the default is what it is."""
    assert field.description, key
    assert len(field.description.split(". ")) >= 2, key

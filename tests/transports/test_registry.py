"""Each folder of a transport has one entry, and the entry is what the others read."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers import transports as room
from consumers.base.errors import ConfigError
from consumers.transports.registry import (
    forms,
    is_well_formed,
    local_path,
    transport_of,
    transports,
)


def test_every_folder_is_a_transport_of_that_scheme() -> None:
    """So the code of a URL is found by its scheme."""
    folders = {p.parent.name for p in Path(str(room.__file__)).parent.glob("*/__init__.py")}

    assert set(transports()) == folders
    assert all(entry.form.startswith(f"{scheme}:") for scheme, entry in transports().items())


def test_forms_name_every_transport_that_others_can_see() -> None:
    """A log in memory is of no use to another process."""
    assert "memory:NAME" in forms()
    assert "memory:NAME" not in forms(private=False)
    assert "sqlite:FILE.db" in forms(private=False)


@pytest.mark.parametrize(
    ("url", "well"),
    [
        ("sqlite:a.db", True),
        ("sqlite:", False),
        ("sqlite::memory:", False),
        ("sqlite:///a.db", False),
        ("memory:a-1", True),
        ("memory:a b", False),
        ("kafka://a:9092,[::1]:9093", True),
        ("kafka://a", False),
        ("kafka:a:9092", False),
        ("sqlite", False),
        ("redis://a:1", False),
    ],
)
def test_configuration_accepts_the_grammar_of_each_scheme(url: str, well: bool) -> None:
    """A scheme without a folder in `transports` is rejected."""
    assert is_well_formed(url) is well


def test_only_a_path_is_taken_for_one() -> None:
    """A configuration makes it absolute."""
    assert local_path("sqlite:a/b.db") == "a/b.db"
    assert local_path("kafka://a:9092") is None
    assert local_path("redis:a") is None


@pytest.mark.parametrize("url", ["redis://a:1", "sqlite", ""])
def test_url_of_no_transport_is_named(url: str) -> None:
    """With the forms there are."""
    with pytest.raises(ConfigError, match=r"expected a transport as .*sqlite:FILE\.db.*, got"):
        transport_of(url)

"""Which log a URL names, and what is said of one that names none."""

from __future__ import annotations

import pytest

from consumers.base.errors import ConfigError
from consumers.transports import open_log


@pytest.mark.parametrize(
    "url",
    ["", "sqlite", "sqlite:", "sqlite::memory:", "memory:", "redis://x:1", "kafka:x:9092"],
)
def test_unknown_transport_names_the_known_ones(url):
    """A wrong URL is the operator's mistake."""
    with pytest.raises(ConfigError, match=r"kafka://HOST:PORT.*memory:NAME.*sqlite:FILE.db, got"):
        open_log(url)


@pytest.mark.parametrize("url", ["kafka://", "kafka://broker", "kafka://a:9092,b", "kafka://a:x"])
def test_broker_without_a_port_is_named(url):
    """Before the client is asked."""
    with pytest.raises(ConfigError, match="is not HOST:PORT"):
        open_log(url)

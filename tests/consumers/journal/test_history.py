"""The journal read back: in windows, closed behind it, and told as it goes."""

from __future__ import annotations

from inspect import GEN_CLOSED, getgeneratorstate

import pytest

from consumers.service import replay
from consumers.service.recovery import rebuild, sources


@pytest.mark.parametrize("window", [1, 70, 10**6])
def test_replay_in_any_windows_gives_the_same_bits(ran, window, monkeypatch) -> None:
    """How much is read back at once is nobody's business."""
    expected = ran.fingerprint()
    monkeypatch.setattr(replay, "WINDOW", window)

    assert ran.fingerprint() == expected


@pytest.mark.parametrize("window", [100_000, 50])
def test_replay_leaves_nothing_half_read(ran, window, monkeypatch) -> None:
    """What is read and not closed holds its connection until somebody, some time, collects it."""
    opened = []
    read = ran.log.read

    def noted(starts, ends, **more):
        found = read(starts, ends, **more)
        if any(topic == "obs" for topic, _ in starts):
            opened.append(found)
        return found

    monkeypatch.setattr(ran.log, "read", noted)
    monkeypatch.setattr(replay, "WINDOW", window)
    ran.rebuilt()
    assert len(opened) > (window < 100)
    assert [getgeneratorstate(each) for each in opened] == [GEN_CLOSED] * len(opened)


def test_progress_of_a_replay_is_told(ran) -> None:
    """From the first entry to the last."""
    config = ran.config()
    told = []
    rebuild(
        config,
        ran.log,
        sources(config, ran.log),
        None,
        end=ran.ends("svc-journal")[0],
        progress=lambda done, total: told.append((done, total)),
    )

    assert told[-1] == (600, 600)
    assert [done for done, _ in told] == sorted(done for done, _ in told)

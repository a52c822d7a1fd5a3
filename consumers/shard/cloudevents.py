"""The headers of CloudEvents 1.0 in binary mode, for predictions.

Rule: source and id together name an event. The id is the place of the observation, so a prediction
that is written again is the same event.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from consumers.base.records import Header

__all__ = ["event_headers"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def event_headers(
    name: str, place: tuple[str, int, int, int | None], id_: str, ts: int, content_type: str
) -> tuple[Header, ...]:
    """The headers of one prediction.

    Parameters
    ----------
    name
        The service.
    place
        Topic, partition and offset of the observation, and the index of its row or None.
    id_
        Its id.
    ts
        Its timestamp in ms. One that is no date is left out.
    content_type
        The media type of the value.

    Examples
    --------
    >>> place, media = ("visits", 0, 7, None), "application/json"
    >>> headers = event_headers("shop", place, "42", 1_795_260_104_702, media)
    >>> for header, value in headers:
    ...     print(header, value.decode())
    ce_specversion 1.0
    ce_type headwater.prediction
    ce_source /headwater/shop
    ce_id visits:0:7
    ce_subject 42
    content-type application/json
    ce_time 2026-11-21T11:21:44.702+00:00
    """
    at = ":".join(str(part) for part in place if part is not None)
    headers = (
        ("ce_specversion", b"1.0"),
        ("ce_type", b"headwater.prediction"),
        ("ce_source", f"/headwater/{name}".encode()),
        ("ce_id", at.encode()),
        ("ce_subject", id_.encode()),
        ("content-type", content_type.encode()),
    )
    try:
        time = (_EPOCH + timedelta(milliseconds=ts)).isoformat(timespec="milliseconds")
    except OverflowError:
        return headers
    return (*headers, ("ce_time", time.encode()))

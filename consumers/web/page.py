"""The live page: HTML, a script, and a stream of status documents. Read only.

Rule: data of records reaches the browser as text in JSON, never as markup. Nothing is loaded from
other hosts, so the page works without a network. Streams are bounded and counted, and end with the
server.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from html import escape
from pathlib import Path
from string import Template

import msgspec
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from consumers.base.health import Health
from consumers.shard.views import LATEST, PublishedPrediction
from consumers.telemetry.log import REPEATS
from consumers.telemetry.metrics import METRICS
from consumers.telemetry.spec import ProcessFacts, family
from consumers.web.document import ExplanationStatus
from consumers.web.limits import places
from consumers.web.status import (
    PERCENT,
    decoded,
    explained,
    observed,
    published,
    status,
    without_records,
)
from consumers.web.status_feed import SECONDS, StatusFeed
from consumers.web.strongest import FeatureLists, StrongestFeatures
from stream.kernel.tiers import waiting

__all__ = ["MAX_STREAMS", "Handler", "Page", "PageCollector"]

Handler = Callable[[Request], Awaitable[Response]]

MAX_STREAMS = 128  # open pages; what a further one gets is in `_has_room`
EVERY_SECONDS = 1.0  # between two documents of one page, or longer:
A_SECOND = 30  # documents sent to all pages together
QUIET_SECONDS = 15.0  # without news before an empty line, which detects closed pages
REMEMBERED = 60 * LATEST  # shown predictions: those of at least one minute
ANSWER_SECONDS = 3.0  # timeout of an explanation; the loop polls at least once a second

_ASSETS = Path(__file__).parent / "assets"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


_UNBUFFERED = {"x-accel-buffering": "no"}  # a buffering proxy would delay the documents


class Page:
    """The page of a service.

    Parameters
    ----------
    name
        The service's name.
    health
        Returns the present health.
    status_feeds
        The status feeds of the shards of this process, by number.
    contents
        Whether to show contents of records: of dead letters, the names of reporters and keys.
    predictions
        Whether to show predictions and their ids.

    Attributes
    ----------
    streams
        Open streams, the oldest first.
    facts
        What the server has counted, for its metrics.
    refused
        Rejected requests, by `consumers.telemetry.metrics.REFUSALS`.

    Examples
    --------
    >>> len(Page("mail", lambda: None, dict).handlers())
    6
    """

    def __init__(
        self,
        name: str,
        health: Callable[[], Health],
        status_feeds: Callable[[], Mapping[int, StatusFeed]],
        *,
        contents: bool = True,
        predictions: bool = True,
    ) -> None:
        self.name, self._health, self._status_feeds = name, health, status_feeds
        self._contents, self._predictions = contents, predictions
        self._files = _files()
        shell = (_ASSETS / "page.html").read_text(encoding="utf-8")
        self._template = Template(shell)
        everything = b"".join((shell.encode(), *self._files.values()))
        # In every URL, so that a new version never uses a cached old file.
        self._key = blake2b(everything, digest_size=6).hexdigest()
        self._made: dict[int, tuple[object, float, bytes]] = {}
        self._shown: dict[int, OrderedDict[str, PublishedPrediction]] = {}
        self._strongest: dict[int, StrongestFeatures] = {}
        self.streams: list[_Stream] = []
        self.facts = ProcessFacts(time.time)
        self.refused = self.facts.counts["headwater_http_refused_total"]
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def handlers(self) -> dict[str, Handler]:
        """The handlers of its routes, by the names of their rows in `ROUTES`."""
        return {
            "GET /": self._shell,
            "GET /assets/{key}/{file}": self._asset,
            "GET /events": self._events,
            "GET /explain": self._explain,
            "GET /features": self._features,
            "GET /status": self._status,
        }

    def close(self) -> None:
        """End the streams; called from another thread than the server's."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._closed = True
        for stream in self.streams:
            stream.ended.set()

    @property
    def open(self) -> int:
        """How many pages are open."""
        return len(self.streams)

    # Requests.

    async def _shell(self, _: Request) -> Response:
        state, detail = _state_and_detail(self._health())
        text = self._template.substitute(
            name=escape(self.name),
            key=self._key,
            state=state,
            detail=escape(f": {detail}" if detail else ""),
        )
        return HTMLResponse(text, headers=_HEADERS)

    async def _asset(self, request: Request) -> Response:
        name, key = request.path_params["file"], request.path_params["key"]
        if key != self._key or name not in self._files:
            return Response("not found\n", 404, media_type="text/plain")
        headers = _HEADERS | {"cache-control": "public, max-age=31536000, immutable"}
        return Response(self._files[name], headers=headers, media_type=_TYPES[Path(name).suffix])

    async def _status(self, request: Request) -> Response:
        return Response(
            self._document(_shard(request)), headers=_HEADERS, media_type="application/json"
        )

    async def _events(self, request: Request) -> Response:
        # They keep their connections, so half of all connections stays free for other requests.
        most = min(MAX_STREAMS, places() // 2)
        source = request.scope["state"]["connection"].source
        opens = request.method != "HEAD"
        if not self._has_room(most, source, opens=opens):
            self.refused["pages"] += 1
            return Response(
                f"{most} pages are open; close one, or try again later\n",
                503,
                headers=_HEADERS | {"retry-after": "30"},
                media_type="text/plain",
            )
        if not opens:
            return Response(headers=_HEADERS, media_type="text/event-stream")
        return _Stream(self, _shard(request), source)

    def _has_room(self, most: int, source: str, *, opens: bool) -> bool:
        """Whether an address may open a page. If `most` are open, the oldest page of the address
        with the most pages ends, if this one has fewer even with one more. So no stranger keeps the
        operator out. Nothing ends for a request that opens none."""
        lasting = [stream for stream in self.streams if not stream.ended.is_set()]
        if len(lasting) < most:
            return True
        counts = Counter(stream.source for stream in lasting)
        fullest, count = max(counts.items(), key=lambda each: each[1], default=("", 0))
        if count <= counts[source] + 1:
            return False
        if opens:
            next(stream for stream in lasting if stream.source == fullest).ended.set()
        return True

    async def _explain(self, request: Request) -> Response:
        shard = _shard(request)
        status_feed = self._status_feeds().get(shard)
        place = request.query_params.get("place", "")
        prediction = None if shard not in self._shown else self._shown[shard].get(place)
        if status_feed is None or prediction is None:
            return _refusal(404, "shown too long ago; use headwater audit")
        document = decoded(prediction)
        if (why := published(document)) is not None:
            return _answer(why)
        if prediction.observation is None:
            return _refusal(413, "the record is too large to be kept; use headwater audit")
        waiting = status_feed.questions.ask(prediction)
        if waiting is None:
            self.refused["questions"] += 1
            return _refusal(503, "too many questions wait; ask again")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = await asyncio.wrap_future(waiting)
        except TimeoutError:
            return _refusal(503, "the loop is busy or does not run; ask again")
        except Exception as error:  # reported to this client only
            return _refusal(500, f"the model could not explain it ({type(error).__name__})")
        if found is None:
            return _refusal(404, "this model has no explanations")
        return _answer(explained(*found, document))

    async def _features(self, request: Request) -> Response:
        shard = _shard(request)
        status_feed = self._status_feeds().get(shard)
        if status_feed is None:
            return _refusal(404, "this process does not run the shard")
        shown = list(reversed(self._shown.get(shard, OrderedDict()).values()))
        try:
            kept = self._strongest.setdefault(shard, StrongestFeatures())
            found = await kept.lists(status_feed, shown)
        except TimeoutError:
            return _refusal(503, "the loop is busy or does not run; ask again")
        except Exception as error:  # reported to this client only
            return _refusal(500, f"the features could not be read ({type(error).__name__})")
        if found is None:
            return _refusal(404, "this model has no named features yet")
        return _answer(found)

    # Documents.

    def _document(self, shard: int) -> bytes:
        """The newest document, made once per second for all pages of the shard."""
        status_feeds, health = self._status_feeds(), self._health()
        versions = tuple(
            (number, status_feed.version) for number, status_feed in sorted(status_feeds.items())
        )
        at, now = time.time(), time.monotonic()
        # Throughput falls to 0 by the clock alone, so documents change until all of it is 0.
        flowed = any(
            at - (status_feed.committed_at or 0) < SECONDS for status_feed in status_feeds.values()
        )
        key = (str(health), versions, int(at) if flowed else 0)
        shown = shard if shard in status_feeds else min(status_feeds, default=0)
        made = self._made.get(shown)
        if made is not None and (made[0] == key or now - made[1] < EVERY_SECONDS):
            return made[2]
        document = status(self.name, self._key, _state_and_detail(health), status_feeds, shown, at)
        if not self._contents:
            document = without_records(document, predictions=self._predictions)
        text = msgspec.json.encode(document)
        for of in (self._made, self._shown, self._strongest):
            for gone in of.keys() - status_feeds.keys():
                del of[gone]
        self._made[shown] = (key, now, text)
        if shown in status_feeds:
            self._remember(shown, status_feeds[shown].latest)
        return text

    def _remember(self, shard: int, latest: Sequence[PublishedPrediction]) -> None:
        """Remember the shown predictions, so that they can be explained for a while."""
        kept = self._shown.setdefault(shard, OrderedDict())
        for prediction in latest:
            place = observed(decoded(prediction))
            kept[place] = prediction
            kept.move_to_end(place)
        while len(kept) > REMEMBERED:
            kept.popitem(last=False)

    async def texts(self, shard: int, ended: asyncio.Event) -> AsyncIterator[bytes]:
        """The stream of one page."""
        self._loop = asyncio.get_running_loop()
        yield b"retry: 3000\n\n"
        last, quiet = b"", 0.0
        while not (ended.is_set() or self._closed):
            text = self._document(shard)
            if text is not last:
                yield b"data: " + text + b"\n\n"
                last, quiet = text, 0.0
            elif quiet >= QUIET_SECONDS:
                yield b":\n\n"
                quiet = 0.0
            pause = max(EVERY_SECONDS, self.open / A_SECOND)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await ended.wait()
            quiet += pause


class _Stream(StreamingResponse):
    """One open page."""

    def __init__(self, page: Page, shard: int, source: str) -> None:
        self.ended, self.source, self._page = asyncio.Event(), source, page
        super().__init__(
            page.texts(shard, self.ended),
            headers=_HEADERS | _UNBUFFERED,
            media_type="text/event-stream",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._page.streams.append(self)
        scope["state"]["connection"].live = True
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._page.streams.remove(self)


class PageCollector(Collector):
    """Open pages, rejected requests and omitted log lines, since the process started."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def collect(self) -> Iterator[Metric]:
        """One family per metric."""
        facts = self._page.facts
        facts.values["headwater_http_open_pages"] = self._page.open
        facts.values["headwater_kernels_waiting"] = waiting()
        facts.values["headwater_log_lines_left_out_total"] = REPEATS.left_out
        for spec in METRICS:
            if spec.server is not None:
                yield family(spec, spec.server(facts, spec.name))


def _files() -> dict[str, bytes]:
    """The files of the page, by name; the script gets the list of scores in percent."""
    files = {path.name: path.read_bytes() for path in _ASSETS.iterdir() if path.suffix in _TYPES}
    percent = json.dumps(PERCENT).encode()
    return files | {"page.js": files["page.js"].replace(b"$percent", percent)}


def _state_and_detail(health: Health) -> tuple[str, str]:
    """State and detail, without secrets."""
    return health.state, str(health).removeprefix(health.state).removeprefix(": ")


def _shard(request: Request) -> int:
    number = request.query_params.get("shard", "")
    return int(number) if number.isdecimal() and len(number) < 5 else 0


def _answer(found: ExplanationStatus | FeatureLists) -> Response:
    return Response(msgspec.json.encode(found), headers=_HEADERS, media_type="application/json")


def _refusal(code: int, why: str) -> Response:
    return JSONResponse({"error": why}, code, headers=_HEADERS)

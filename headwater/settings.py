"""What a client is made from, and which side it gets: a service over HTTP, or a log."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from consumers.base.errors import ConfigError, TransportError
from consumers.base.secrets import without_login
from headwater.exchange import Retries
from headwater.http1 import Tokens
from headwater.records import Prepared, TopicNames, prepare_features, prepare_observations

if TYPE_CHECKING:
    import ssl

    from consumers.config import Config
    from headwater.log import LogDoor

__all__ = ["ClientBase", "ClientSettings"]

SERVICE = ("http", "https")
SERVICE_URL = "http://localhost:8321"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The arguments of a client. See `Client`."""

    url: str
    topics: TopicNames = field(default_factory=TopicNames)
    id_field: str = "id"
    reporter_field: str | None = "reporter"
    kafka: Mapping[str, object] = field(default_factory=dict, repr=False)
    read_token: str | None = field(default=None, repr=False)
    write_token: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    timeout: float = 30.0
    retries: int = 5
    config: Config | None = field(default=None, repr=False)
    service: str = SERVICE_URL  # where `predict` is answered, for messages

    def __post_init__(self) -> None:
        if not (self.timeout > 0 and self.retries >= 0):
            raise ConfigError(
                f"expected timeout above 0 and retries of 0 or more, got {self.timeout:g} and "
                f"{self.retries}"
            )
        if not self.over_http:
            self._check_log()
        if self.over_http and (any(self.topics) or self.kafka):
            raise ConfigError("topics and kafka are for a log; a service knows them; remove them")
        if not self.over_http and (self.read_token or self.write_token or self.tls):
            raise ConfigError(
                "tokens and tls are for a service over HTTP; those of Kafka are in kafka={…}"
            )

    def _check_log(self) -> None:
        from consumers.transports.registry import forms, transports

        if _scheme(self.url) not in transports():
            raise ConfigError(
                f"expected http://HOST:PORT or a log as {forms(private=False)}, got "
                f"{without_login(self.url)!r}"
            )

    @classmethod
    def from_config(cls, path: str | Path, timeout: float) -> ClientSettings:
        """Those of the log of a configuration."""
        from consumers.config import load

        config = load(Path(path))
        port = config.serve.port or config.http.port
        return cls(
            url=config.input.transport,
            topics=TopicNames(
                config.input.observations, config.input.labels, config.predictions_topic
            ),
            id_field=config.input.id,
            reporter_field=config.labels.reporter,
            kafka=config.kafka,
            timeout=timeout,
            config=config,
            service=f"http://{config.http.host}:{port}" if port else SERVICE_URL,
        )

    @property
    def over_http(self) -> bool:
        """Whether the URL is that of a service."""
        return _scheme(self.url) in SERVICE

    @property
    def tokens(self) -> Tokens:
        """Those of a service."""
        return Tokens(self.read_token, self.write_token)

    @property
    def tries(self) -> Retries:
        """How often and how long a call is tried."""
        return Retries(self.timeout, self.retries)

    def topic(self, role: str) -> str:
        """The topic with a role; ConfigError if it is not known."""
        found: str | None = getattr(self.topics, role)
        if found is None:
            raise ConfigError(
                f"expected the topic of the {role}, got none; give {role}=TOPIC, or use "
                "Client.from_config"
            )
        return found

    def log(self) -> LogDoor:
        """The log. ConfigError if its file does not exist: writing would create an empty one."""
        from consumers.transports.registry import local_path
        from headwater.log import LogDoor

        path = local_path(self.url)
        if path is not None and not os.path.exists(path):
            raise ConfigError(
                f"{self.url}: no such log; `headwater check CONFIG --create` creates it"
            )
        return LogDoor(self.url, self.kafka, self.config)

    def to_predict(
        self, xs: Iterable[Mapping[str, object]], explain: int, *, record: bool
    ) -> Iterator[Prepared]:
        """Observations to predict. Those that are recorded have an id, so a repeated request is
        safe."""
        if not record:
            return prepare_features(xs)
        if explain:
            raise ConfigError(
                "expected record or explain; a recorded prediction is explained by [output] explain"
            )
        return prepare_observations(xs, None, None, self.id_field)

    def shown(self, name: str) -> str:
        """The repr of a client: no token, no password."""
        return f"{name}({without_login(self.url)!r})"

    def late(self) -> TransportError:
        """The error of a log that did not acknowledge in time."""
        return TransportError(
            f"expected {without_login(self.url)} to acknowledge within {self.timeout:g} s; the "
            "records may be written; write them again with the same ids, or raise timeout"
        )

    def no_predict(self) -> ConfigError:
        """The error of a client of a log that is asked for a prediction."""
        return ConfigError(
            "expected a service over HTTP, because a log cannot predict; ask "
            f"Client({self.service!r}).predict(x), or observe(x) and read predictions()"
        )

    def no_stream(self) -> ConfigError:
        """The error of a client of a service that is asked for all predictions."""
        return ConfigError(
            "expected a log, because a service answers single requests; read predictions() with "
            "Client.from_config('CONFIG.toml') or Client('kafka://HOST:PORT', predictions='TOPIC')"
        )

    def no_time(self) -> ConfigError:
        """The error of a client of a service that is given a time."""
        return ConfigError(
            "expected no ts, because a service stamps records with the present time; write to the "
            "log instead: Client.from_config('CONFIG.toml')"
        )


class ClientBase:
    """What both clients are made from."""

    _settings: ClientSettings

    def __init__(
        self,
        url: str,
        *,
        observations: str | None = None,
        labels: str | None = None,
        predictions: str | None = None,
        id_field: str = "id",
        reporter_field: str = "reporter",
        kafka: Mapping[str, object] | None = None,
        read_token: str | None = None,
        write_token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = 30.0,
        retries: int = 5,
    ) -> None:
        self._open(
            ClientSettings(
                url=url,
                topics=TopicNames(observations, labels, predictions),
                id_field=id_field,
                reporter_field=reporter_field,
                kafka=kafka or {},
                read_token=read_token,
                write_token=write_token,
                tls=tls,
                timeout=timeout,
                retries=retries,
            )
        )

    @classmethod
    def from_config(cls, path: str | Path, *, timeout: float = 30.0) -> Self:
        """A client of the log of a configuration, with its topics and the name of its id.

        Raises
        ------
        ConfigError
            The configuration is missing or wrong.
        """
        client = cls.__new__(cls)
        client._open(ClientSettings.from_config(path, timeout))
        return client

    def _open(self, settings: ClientSettings) -> None:
        """Choose the side; nothing connects yet."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._settings.shown(type(self).__name__)


def _scheme(url: str) -> str:
    """What stands before the first colon. A URL that is not well-formed is explained later."""
    return url.partition(":")[0].lower()

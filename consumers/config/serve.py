"""Sections of what the service talks to: HTTP, telemetry and the schema registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, model_validator

from consumers.base.secrets import Secret
from consumers.base.units import shown_url
from consumers.config.sections import Duration, Section

__all__ = ["RegistryConfig", "ServeConfig", "TelemetryConfig"]

SHORTEST_TOKEN = 16


def _token(token: Secret) -> Secret:
    if len(token) < SHORTEST_TOKEN:
        raise ValueError(f"expected a token of {SHORTEST_TOKEN} characters or more, got fewer")
    if not token.isascii() or any(not 33 <= ord(c) <= 126 for c in token):
        raise ValueError("expected a token of ASCII characters without spaces, got others")
    return token


Token = Annotated[InstanceOf[Secret], AfterValidator(_token)]


class ServeConfig(Section):
    """Predictions on request, and records written over HTTP, under `/v1` and `/v2` of `[http]`."""

    enabled: bool = Field(
        default=True,
        description="Whether requests are answered. Default on, because without a token only "
        "this machine can ask, and only if `[http] host` is loopback.",
    )
    port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="TCP port on which a process of its own answers requests, at `[http] host`; 0 "
        "takes a free one and prints it. Default none: a thread of the service answers on the port "
        "of `[http]`. Set it above some 50 requests a second, because a thread takes its time "
        "from the loop. It needs a transport of several processes.",
    )
    read_token: Token | None = Field(
        default=None,
        description="Bearer token for predictions, as `${env:NAME}` or `${file:PATH}`, at least "
        "16 characters. It opens neither the page nor the metrics. Default none: on loopback, or "
        "with the logins or client certificates of `[http] web_config`, requests need no token; "
        "elsewhere they are refused.",
    )
    write_token: Token | None = Field(
        default=None,
        description="Bearer token for writing observations and labels; another one than "
        "`read_token`, because labels decide what the model learns. Default none: "
        "programs on this machine can write if `[http] host` is loopback; elsewhere writing is "
        "refused.",
    )
    max_age: Duration = Field(
        default="1s",
        description="How old the model of an answer may be. Default 1s. The loop copies its model "
        "for this at most twice in this time, and for at most 2 % of a processor, so a large model "
        "may be older, unless `port` is set; each answer has its age.",
    )
    max_body_bytes: int = Field(
        default=2**20,
        ge=1024,
        le=2**26,
        description="Bytes of one request. A larger one is refused with 413. Default 1 MiB.",
    )
    max_records: int = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="Records of one request. More are refused with 413. Default 1,000, which an "
        "included model answers within some milliseconds.",
    )
    max_requests: int = Field(
        default=64,
        ge=1,
        le=1024,
        description="Requests answered at the same time. A further one is refused with 429. "
        "Default 64.",
    )
    timeout: Duration = Field(
        default="10s",
        description="How long a request waits for the log, and with `?record=true` for its "
        "prediction, before it is answered with 504. Default 10s.",
    )

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if self.read_token is not None and self.read_token == self.write_token:
            raise ValueError(
                "expected a write_token other than read_token, got the same; make another one"
            )
        return self


class TelemetryConfig(Section):
    """Scores, metrics and the log."""

    window: int = Field(
        default=1000,
        ge=1,
        le=10_000,
        description="Number of scored predictions in the window `last_1000`; the name of "
        "the window follows it. Default 1000: the accuracy is known to within 3 points, and a "
        "change shows soon. Each prediction takes at least 72 bytes of memory and snapshot. "
        "If you change it, change queries that name `last_1000`; those of docker/ use "
        "`last_.+`.",
    )
    max_classes: int = Field(
        default=20,
        ge=1,
        le=256,
        description="Number of labels with their own series; all others share `__other__`. "
        "Default 20: a confusion matrix of 400 series, which Prometheus holds easily.",
    )
    challenger_confusion: bool = Field(
        default=False,
        description="Whether challengers have series of their confusion matrix too. Default "
        "off, because their scores are enough to choose by, and each matrix can have 400 "
        "series.",
    )
    log: Literal["text", "json"] = Field(
        default="text",
        description="Format of the log on stderr: `text` for people, `json` for log "
        "collectors. Default `text`.",
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="The lowest level that is logged. Default `info`: starts, stops and "
        "problems, but no line per record.",
    )


def _url(url: str) -> str:
    each = r"(https?|mock)://[^\s,@]*"
    if re.fullmatch(rf"{each}(,{each})*", url):
        return url
    raise ValueError(
        "expected the registry as http://HOST:PORT or https://HOST:PORT without a login, several "
        f"of them separated by commas, got {shown_url(url)!r}"
    )


def _path(value: object) -> object:
    return Path(value) if isinstance(value, str) else value


FilePath = Annotated[Path, BeforeValidator(_path)]


class RegistryConfig(Section):
    """The schema registry, for an `[input] format` with schemas. It speaks Confluent's API."""

    url: Annotated[str, AfterValidator(_url)] | None = Field(
        default=None,
        description="The registry: `https://HOST:PORT`, or several of one cluster separated by "
        "commas, which are asked in this order. Default none, because JSON has no schemas; the "
        "other formats need it.",
    )
    username: str | None = Field(
        default=None,
        min_length=1,
        description="User name for HTTP basic authentication, with `password`. Default none.",
    )
    password: InstanceOf[Secret] | None = Field(
        default=None,
        description="Its password, as `${env:NAME}` or `${file:PATH}`. Default none.",
    )
    token: InstanceOf[Secret] | None = Field(
        default=None,
        description="Bearer token instead of a login, as `${env:NAME}` or `${file:PATH}`. "
        "Default none.",
    )
    ca: FilePath | None = Field(
        default=None,
        description="File in PEM with the authorities that may sign the registry's certificate. "
        "Default none: those of the package certifi.",
    )
    certificate: FilePath | None = Field(
        default=None,
        description="File in PEM with the client's certificate, for a registry that asks for one. "
        "Default none.",
    )
    key: FilePath | None = Field(
        default=None,
        description="File in PEM with its private key. Default none: it is in `certificate`.",
    )
    insecure: bool = Field(
        default=False,
        description="Whether a password or token may be sent without TLS. Default no, because "
        "everybody on the way could read it.",
    )
    auto_register: bool = Field(
        default=True,
        description="Whether a start registers the schema of predictions. With `false` it must be "
        "registered already (`headwater check` prints it). Default yes, as Confluent's "
        "serializers do.",
    )
    timeout: Duration = Field(
        default="10s",
        description="How long one request may take. Default 10s. After it the request is repeated, "
        "and the service waits.",
    )

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("expected username and password, got one of them; give both")
        if self.password is not None and self.token is not None:
            raise ValueError("expected a password or a token, got both; remove one of them")
        if self.key is not None and self.certificate is None:
            raise ValueError("key needs certificate; give both")
        secret = self.password is not None or self.token is not None
        if secret and not self.insecure and "http://" in (self.url or ""):
            raise ValueError(
                "a password or token over http:// can be read on the way; use https://, or set "
                "insecure = true"
            )
        return self

"""The section of what clients ask and write over HTTP."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, InstanceOf, model_validator

from consumers.base.secrets import Secret
from consumers.config.sections import Duration, Section

__all__ = ["ServeConfig"]

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

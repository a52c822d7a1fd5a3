"""The section of the schema registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, model_validator

from consumers.base.secrets import Secret
from consumers.config.sections import Duration, Section
from consumers.config.units import shown_url

__all__ = ["RegistryConfig"]


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

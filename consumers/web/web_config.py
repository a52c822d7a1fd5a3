"""Prometheus' web-config file -> a TLS context and passwords.

The format is that of the exporter-toolkit, so that one file serves every exporter of a site. An
unsupported key is an error, never ignored. As in the toolkit, the password protects every page,
`/healthz` too. No message shows a password or hash.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from consumers.base.errors import ConfigError
from consumers.base.extras import install
from consumers.config.load import message, read_text
from consumers.config.sections import Section

__all__ = ["WebConfig", "load_web_config"]


def _hash(value: object) -> str:
    # The value may be a password in the clear, so the message does not repeat it.
    if isinstance(value, str) and (
        found := re.fullmatch(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}", value)
    ):
        if 4 <= int(found[1]) <= 16:
            return value
        raise ValueError("expected a bcrypt cost of 4 to 16, got another; 10 is usual")
    raise ValueError(
        "expected a bcrypt hash ($2y$…), got something else; `htpasswd -nBC 10 NAME` makes one"
    )


class _Tls(Section):
    cert_file: Annotated[str, Field(min_length=1)]
    key_file: Annotated[str, Field(min_length=1)]
    client_auth_type: Literal[
        "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
    ] = "NoClientCert"
    client_ca_file: str | None = None
    min_version: Literal["TLS12", "TLS13"] = "TLS12"


class _File(Section):
    tls_server_config: _Tls | None = None
    basic_auth_users: dict[
        Annotated[str, Field(min_length=1, pattern=r"^[^:]+$")],
        Annotated[str, BeforeValidator(_hash)],
    ] = Field(default_factory=dict)


class WebConfig:
    """A web-config file that was read.

    Parameters
    ----------
    tls
        The TLS context of the server; None without TLS.
    users
        Name to bcrypt hash; empty: no password.
    """

    def __init__(self, tls: ssl.SSLContext | None, users: Mapping[str, str]) -> None:
        self.tls = tls
        self.users = dict(users)

    @property
    def closed(self) -> bool:
        """Whether it authenticates clients, by a password or by their certificates."""
        required = self.tls is not None and self.tls.verify_mode is ssl.CERT_REQUIRED
        return bool(self.users) or required


def load_web_config(path: Path) -> WebConfig:
    """Read a web-config file; certificates are read once, here.

    Raises
    ------
    ConfigError
        The file, or one it names, cannot be used; or the extra `web` is not installed.
    """
    try:
        import bcrypt  # noqa: F401
        import yaml
    except ImportError as error:
        raise ConfigError(
            f"[http] web_config needs {error.name}, which is not installed; run `{install('web')}`"
        ) from None
    text = read_text(path, "[http] web_config", "correct the path, relative to the configuration")
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:  # its message quotes the lines with the hashes
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{path}: expected YAML, got something else{where}; correct it") from None
    try:
        file = _File.model_validate({} if raw is None else raw)
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise ConfigError("\n".join(f"{path}: {_line(dict(each))}" for each in details)) from None
    if file.tls_server_config is None and not file.basic_auth_users:
        raise ConfigError(
            f"{path}: expected tls_server_config or basic_auth_users, got neither; add one, or "
            "remove [http] web_config"
        )
    tls = None if file.tls_server_config is None else _context(path, file.tls_server_config)
    return WebConfig(tls, file.basic_auth_users)


def _line(detail: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in detail["loc"] if part != "[key]") or "the file"
    if detail["type"] == "extra_forbidden":
        return f"{where}: not supported; remove it"
    if detail["type"] == "missing":
        return f"{where}: required, but missing"
    if detail["loc"][:1] == ("basic_auth_users",) and detail["type"] != "value_error":
        return "basic_auth_users: expected names without ':', each with a bcrypt hash; correct it"
    return f"{where}: {message(detail)}"  # type: ignore[arg-type]


def _context(path: Path, tls: _Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls13 = tls.min_version == "TLS13"
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if tls13 else ssl.TLSVersion.TLSv1_2

    def beside(name: str) -> Path:
        return path.parent / name

    _read(
        path,
        "cert_file and key_file",
        # An empty password, because without one OpenSSL asks at the terminal.
        lambda: context.load_cert_chain(beside(tls.cert_file), beside(tls.key_file), password=""),
    )
    wanted = tls.client_auth_type != "NoClientCert"
    if wanted != (tls.client_ca_file is not None):
        raise ConfigError(
            f"{path}: tls_server_config: expected client_ca_file and a client_auth_type other "
            "than NoClientCert together, got one of them; add the other"
        )
    if tls.client_ca_file is not None:
        authority = beside(tls.client_ca_file)
        _read(path, "client_ca_file", lambda: context.load_verify_locations(authority))
        required = tls.client_auth_type == "RequireAndVerifyClientCert"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def _read(path: Path, what: str, load: Callable[[], object]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise ConfigError(
            f"{path}: tls_server_config: expected a certificate in PEM, and its key without a "
            f"password, in {what}, OpenSSL: {error.reason or 'that it found none'}; correct it"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{path}: tls_server_config: cannot read {what} ({error.strerror}); correct it"
        ) from None

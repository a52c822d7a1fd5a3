"""A broker of its own that asks for TLS and passwords, certified by an authority made here.

One node, a listener a way to come in; SCRAM users are written while the log is formatted.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.kafka.broker import running_java

__all__ = ["PASSWORD", "USER", "Secured", "secured_broker"]

USER = "ann"
PASSWORD = "correct-horse-battery"

LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "MISNAMED": "SSL",
    "SCRAM": "SASL_SSL",
    "CLEAR": "SASL_PLAINTEXT",
}


@dataclass(frozen=True)
class Secured:
    """The addresses of the broker, by listener, and the files a client needs.

    Parameters
    ----------
    plaintext, tls, scram
        HOST:PORT without security; with TLS; with TLS and SCRAM-SHA-512.
    misnamed
        With TLS, but a certificate of another host.
    clear
        SCRAM-SHA-512 without TLS.
    authority, stranger
        Certificates of the authority that certified the broker, and of one that did not.
    """

    plaintext: str
    tls: str
    misnamed: str
    scram: str
    clear: str
    authority: Path
    stranger: Path


@contextlib.contextmanager
def secured_broker() -> Iterator[Secured]:
    """Yield the broker once it is up; stop it afterwards."""
    with tempfile.TemporaryDirectory(prefix="headwater-tls-") as directory:
        home = Path(directory)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(home / "authority.pem")
        trustme.CA().cert_pem.write_to_path(home / "stranger.pem")
        _write_keystore(authority.issue_cert("127.0.0.1"), home / "keystore.pem")
        _write_keystore(authority.issue_cert("another.host.example"), home / "misnamed.pem")
        with running_java(LISTENERS, _settings(home), _scram()) as ports:
            addresses = {name.lower(): f"127.0.0.1:{port}" for name, port in ports.items()}
            yield Secured(
                **addresses, authority=home / "authority.pem", stranger=home / "stranger.pem"
            )


def _write_keystore(leaf: trustme.LeafCert, path: Path) -> None:
    """Key and certificates in one file; the broker reads keys of PKCS #8 only."""
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(pem + b"".join(blob.bytes() for blob in leaf.cert_chain_pems))


def _settings(home: Path) -> dict[str, str]:
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / "keystore.pem"),
        "listener.name.misnamed.ssl.keystore.type": "PEM",
        "listener.name.misnamed.ssl.keystore.location": str(home / "misnamed.pem"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    for listener in ("scram", "clear"):
        settings[f"listener.name.{listener}.scram-sha-512.sasl.jaas.config"] = login
    return settings


def _scram() -> list[str]:
    return ["--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"]

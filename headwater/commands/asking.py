"""What the commands of mail share: the service that they ask, and the options that name it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwater.client import Client

__all__ = ["FieldOption", "SpamLabelOption", "TokenOption", "UrlOption", "client"]

URL, ENV_URL = "http://localhost:8321", "HEADWATER_URL"

UrlOption = Annotated[
    str,
    typer.Option(metavar="URL", envvar=ENV_URL, help=f"The service; by default {URL}."),
]
TokenOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A file with the token of [serve]; or $HEADWATER_TOKEN."),
]
FieldOption = Annotated[
    str,
    typer.Option(metavar="FIELD", help="The field of the mail in a request, `[input] mail`."),
]
SpamLabelOption = Annotated[
    str, typer.Option(metavar="LABEL", help="The label of spam; by default spam.")
]


def client(
    url: str, token: Path | None, timeout: float, retries: int, reporter_field: str = "reporter"
) -> Client:
    """A client of the service.

    Parameters
    ----------
    token
        A file with the token; None: that of the environment, if any.
    """
    from consumers.base.errors import ConfigError
    from headwater.client import Client

    if token is None:
        found = os.environ.get("HEADWATER_TOKEN")
    else:
        try:
            found = token.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--token {token}: cannot be read ({error})") from None
    return Client(
        url,
        reporter_field=reporter_field,
        read_token=found,
        write_token=found,
        timeout=timeout,
        retries=retries,
    )

"""One file: its name in messages, how it is opened, and what its bytes are after decompression.

Rule: every fault of a file is one `ConfigError` that names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from consumers.base.errors import ConfigError
from consumers.files.compression import Compression, by_content, by_suffix

__all__ = ["File", "local_file", "shortened"]


@dataclass(frozen=True, slots=True)
class File:
    """A file that can be read several times, unless it is live.

    Parameters
    ----------
    shown
        Its name in messages.
    path
        Its path or URL without a query; suffixes are read from it.
    open
        Opens its bytes as they are stored.
    failure
        Turns an error of the device into one line.
    live
        Whether it is a pipe: its records are read when they arrive, and once.
    """

    shown: str
    path: str
    open: Callable[[], BinaryIO]
    failure: Callable[[Exception], str]
    live: bool = False

    def __str__(self) -> str:
        return self.shown

    @property
    def suffix(self) -> str:
        """The suffix in lower case, without that of the compression.

        Examples
        --------
        >>> local_file(Path("visits.CSV.gz")).suffix
        '.csv'
        """
        name = PurePosixPath(self.path).name.lower()
        compression = by_suffix(name)
        name = name if compression is None else name.removesuffix(compression.suffix)
        # Not `PurePath.suffix`: the name may be the suffix alone, such as `.csv`.
        return f".{name.rpartition('.')[2]}" if "." in name else ""

    @contextmanager
    def stored(self) -> Iterator[BinaryIO]:
        """The bytes as they are stored."""
        try:
            with self.open() as file:
                yield file
        except FileNotFoundError:
            raise ConfigError(f"{self}: no such file; check the name") from None
        except ConfigError:
            raise
        except OSError as error:
            raise ConfigError(f"{self}: cannot be read ({self.failure(error)})") from None

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The decompressed bytes.

        Raises
        ------
        ConfigError
            The file is missing, unreadable or damaged.
        """
        compression = self.compression()
        with self.stored() as file:
            if compression is None:
                yield file
                return
            try:
                with compression.open(file) as inner:
                    yield inner
            except EOFError as error:
                raise ConfigError(
                    f"{self}: damaged {compression.name} file ({error}); fetch it again"
                ) from None

    def compression(self) -> Compression | None:
        """How it is compressed, by its name, else by its first bytes."""
        named = by_suffix(self.path.lower())
        if named is not None:
            return named
        with self.stored() as file:
            found = by_content(file.read(8))
        if found is not None and self.live:
            raise ConfigError(
                f"{self}: expected text, got {found.name}; decompress it before the pipe, for "
                "example by `zcat FILE |`"
            )
        return found


def local_file(path: Path) -> File:
    """A file of this machine."""

    def failure(error: Exception) -> str:
        return str(getattr(error, "strerror", None) or error)

    return File(str(path), str(path), lambda: path.open("rb"), failure)


def shortened(text: str | bytes) -> str:
    """At most 80 characters of a text, for a message.

    Examples
    --------
    >>> shortened(b" [1, 2] ")
    '[1, 2]'
    """
    shown = text.decode(errors="replace") if isinstance(text, bytes) else text
    shown = shown.strip()
    return shown if len(shown) <= 80 else shown[:79] + "…"

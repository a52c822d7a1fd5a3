"""Machine code in files, which are read only if they are whole and of this very source.

Rule: numba writes which file has a kernel before it writes the file. If the process ends between
both, the disk is full, or two processes write at once, the file has the code of another version or
of other types, and after a power cut it has holes. LLVM ends the process over a hole, at each start
again. So a file says what it is, with a checksum.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from numba.core.caching import IndexDataCacheFile
from numba.core.serialize import dumps, loads

__all__ = ["KeptFiles"]


class KeptFiles(IndexDataCacheFile):  # type: ignore[misc]
    """Files of one kernel. What cannot be read is not there, and is compiled again."""

    def save(self, key: Any, data: Any) -> None:
        """Keep the code of a key, in place of what was kept."""
        code = dumps(data)
        super().save(key, (self._source_stamp, key, crc32(code), code))

    def load(self, key: Any) -> Any:
        """What was kept for a key; None without it."""
        try:
            stamp, of, checksum, code = super().load(key)
            whole = (stamp, of, checksum) == (self._source_stamp, key, crc32(code))
            return loads(code) if whole else None
        except Exception:
            return None

    def known(self) -> list[Any]:
        """Those for which there should be something."""
        return list(self._load_index())

    def _load_index(self) -> dict[Any, str]:
        try:
            loaded: dict[Any, str] = super()._load_index()
        except Exception:
            return {}
        return loaded

"""How a file is read: mapped, loaded, or page by page; and opened again in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmbloom.errors import ParameterError
from mmbloom.storage.digests import check_digest_form
from mmbloom.storage.in_memory import LoadedFile
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.pread import PreadFile

if TYPE_CHECKING:
    from mmbloom.storage.advice import Advice
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.storage import Mode

_STORAGES: dict[str, type[MappedFile]] = {
    str(each.mode): each for each in (MappedFile, LoadedFile, PreadFile)
}


class OpenOptions(NamedTuple):
    """What a reader was opened with; see MappedFile.open and BloomFilter.open."""

    advice: Advice = "random"
    mode: Mode = "map"
    expected_digest: str | None = None
    follow_links: bool = True

    def checked(self) -> OpenOptions:
        """Return the same with its words checked, before a file is touched."""
        if not isinstance(self.mode, str) or self.mode not in _STORAGES:
            raise ParameterError("mode", f"one of {', '.join(_STORAGES)}", self.mode)
        if self.expected_digest is None:
            return self
        return self._replace(expected_digest=check_digest_form(self.expected_digest))

    def open(self, path: FilePath) -> MappedFile:
        """Open the file at *path*; raises as MappedFile.open."""
        # Canaries lie far apart: reading ahead at each would cost more than all later look-ups.
        return _STORAGES[self.mode].open(
            path,
            "random" if self.advice == "normal" else self.advice,
            expected_digest=self.expected_digest,
            follow_links=self.follow_links,
        )

"""How a file is read: mapped, loaded, or page by page; and opened again in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmbloom.errors import ParameterError
from mmbloom.storage.digests import check_digest_form
from mmbloom.storage.loaded import LoadedFile
from mmbloom.storage.mapped import MappedFile, Mode
from mmbloom.storage.unmapped import UnmappedFile

if TYPE_CHECKING:
    from mmbloom.storage.advice import Advice
    from mmbloom.storage.paths import FilePath

_KINDS: dict[Mode, type[MappedFile]] = {
    kind.mode: kind for kind in (MappedFile, LoadedFile, UnmappedFile)
}


class Reading(NamedTuple):
    """What a reader was opened with; see MappedFile.open and BloomFilter.open."""

    advice: Advice = "random"
    mode: Mode = "map"
    expected_digest: str | None = None
    follow_links: bool = True

    def checked(self) -> Reading:
        """Return the same with its words checked, before a file is touched."""
        if self.mode not in _KINDS:
            raise ParameterError("mode", f"one of {', '.join(_KINDS)}", self.mode)
        if self.expected_digest is None:
            return self
        return self._replace(expected_digest=check_digest_form(self.expected_digest))

    def open(self, path: FilePath) -> MappedFile:
        """Open the file at *path*; raises as MappedFile.open."""
        # Canaries lie far apart: reading ahead at each would cost more than all later look-ups.
        return _KINDS[self.mode].open(
            path,
            "random" if self.advice == "normal" else self.advice,
            expected_digest=self.expected_digest,
            follow_links=self.follow_links,
        )

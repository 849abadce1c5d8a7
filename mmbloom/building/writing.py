"""The last step of a build: a payload in pieces becomes a file, with its counts and its UUID."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.errors import CapacityError
from mmbloom.filters.sealing import write_changeable, write_sealed
from mmbloom.format.fields import KEY_SET_KNOWN, KEYS_EXACT
from mmbloom.format.status import Status
from mmbloom.kinds.spec import content_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from _typeshed import ReadableBuffer

    from mmbloom.filters.sealing import Measured
    from mmbloom.format.header import Header
    from mmbloom.kinds.bloom_direct import DirectPayload
    from mmbloom.kinds.kind import Kind
    from mmbloom.kinds.partitions import Counted
    from mmbloom.storage.progress import Reporter
    from mmbloom.storage.publish import IfExists


class Writing:
    """Writes the file of one build."""

    def __init__(
        self, path: str, kind: Kind, created_ns: int, if_exists: IfExists, reporter: Reporter
    ) -> None:
        """Write to *path*, with *created_ns* as its date."""
        self._path, self._kind, self._created_ns = path, kind, created_ns
        self._if_exists, self._reporter = if_exists, reporter

    def write_counted(
        self, header: Header, pieces: Iterable[ReadableBuffer], counted: Counted
    ) -> Status:
        """Write a payload whose keys were counted one by one.

        Raises:
            CapacityError: there are more keys than *header* has room for.
        """
        self._check_capacity(header, counted.num_keys, f"{counted.num_keys}")

        def finish(_: Measured) -> tuple[Header, Status]:
            key_set = counted.key_set.to_bytes(16, "little")
            return self._identified(header, key_set), Status(
                flags=KEYS_EXACT | KEY_SET_KNOWN,
                keys_added=counted.num_keys,
                key_set=counted.key_set,
                canaries=counted.canaries,
            )

        return self._write(header, pieces, finish)

    def write_direct(self, header: Header, direct: DirectPayload, keys_read: int) -> Status:
        """Write the payload that is in memory. The number of its keys is estimated.

        Raises:
            CapacityError: there are more keys than *header* has room for, beyond chance.
        """

        def finish(measured: Measured) -> tuple[Header, Status]:
            estimate = self._kind.estimate_keys(header, measured.counts.places)
            fewest = self._kind.fewest_keys(header, estimate)
            self._check_capacity(header, fewest, f"about {round(estimate)}")
            keys_added = min(round(estimate), header.capacity, keys_read)
            content = measured.checksum_root.to_bytes(8, "little")
            return self._identified(header, content), Status(
                keys_added=keys_added, canaries=direct.canaries()
            )

        return self._write(header, direct.pieces(), finish)

    def _check_capacity(self, header: Header, num_keys: int, shown: str) -> None:
        if num_keys > header.capacity:
            where = f"{self._path}: {shown} distinct keys in the list"
            raise CapacityError(where, header.capacity)

    def _identified(self, header: Header, content: bytes) -> Header:
        """Return *header* with its date, and a UUID that depends on *content*."""
        dated = header._replace(created_unix_ns=self._created_ns)
        return dated._replace(uuid=content_uuid(dated, content))

    def _write(
        self,
        header: Header,
        pieces: Iterable[ReadableBuffer],
        finish: Callable[[Measured], tuple[Header, Status]],
    ) -> Status:
        self._reporter.begin("assemble", "bytes")
        write = write_sealed if self._kind.is_sealed_when_built else write_changeable
        return write(
            self._path,
            header,
            pieces,
            finish,
            if_exists=self._if_exists,
            progress=self._reporter.tell,
        )

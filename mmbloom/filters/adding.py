"""What goes for every kind that can be changed: making it, batches of keys, equality, emptying.

Which places of the payload a key changes is the business of the kind, which inherits from
AddingHandle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from mmbloom.engine import hash_batch, payloads_equal
from mmbloom.errors import CapacityError
from mmbloom.filters import combining
from mmbloom.filters.bloom_facts import BloomFacts
from mmbloom.filters.changing import ChangingHandle
from mmbloom.filters.parameters import header_for
from mmbloom.format.fields import WRITER_OPEN
from mmbloom.keys.batches import pieces_of
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmbloom.filters.parameters import Seed
    from mmbloom.keys.pieces import Nulls
    from mmbloom.storage.paths import FilePath


class AddingHandle(BloomFacts, ChangingHandle):
    """One filter that keys can be added to, a batch at a time; see BloomFilter."""

    # -- making ------------------------------------------------------------------------------------

    @classmethod
    def create(  # noqa: PLR0913 - what the header holds
        cls,
        path: FilePath,
        *,
        capacity: int,
        fpr: float,
        layout: str = "auto",
        seed: Seed = 0,
        key_form: str = "raw",
        metadata: dict[str, Any] | None = None,
        overfill: bool = False,
    ) -> Self:
        """Make a new filter file and open it for writing. Never replaces a file.

        Args:
            path: where the file will be; its folder must exist.
            capacity: distinct keys that can be in at one time, 1 to 2**48.
            fpr: false-positive rate with that many in, 1e-12 <= fpr < 1.
            layout: of a BloomFilter "classic", "line", "page", or "auto": see ``mmbloom.plan``. A
                CountingBloomFilter has but one, "counters".
            seed: 0 <= seed < 2**64, or "random" for 64 bits of the system's randomness. Filters
                with different seeds have independent false positives.
            key_form: "raw"; or "hex" for digests in hexadecimal, case-blind. It is stored, and
                every reader applies it.
            metadata: a JSON object of up to 2 KiB: source, list version, date.
            overfill: add new keys past the capacity, at a rising fpr, instead of refusing them.

        Raises:
            FileExistsError: and what else the operating system says.
            NoSpaceError: the disk is too full; no file is left.
            ParameterError: a value outside its range.

        Cost: the file's space is reserved, not written.
        """
        header = header_for(
            kind=cls.kind,
            capacity=capacity,
            fpr=fpr,
            layout=layout,
            seed=seed,
            key_form=key_form,
            metadata=metadata,
            overfill=overfill,
        )
        return cls._of_new_file(path, header)

    @classmethod
    def in_memory(  # noqa: PLR0913 - as create()
        cls,
        *,
        capacity: int,
        fpr: float,
        layout: str = "auto",
        seed: Seed = 0,
        key_form: str = "raw",
        metadata: dict[str, Any] | None = None,
        overfill: bool = False,
    ) -> Self:
        """Make a filter in anonymous memory; save() writes it to a file.

        Args:
            capacity: as for create(), and so are all the others.
            fpr: see there.
            layout: see there.
            seed: see there.
            key_form: see there.
            metadata: see there.
            overfill: see there.

        Raises:
            MemoryError: more than this machine has. ParameterError: a value outside its range.
        """
        header = header_for(
            kind=cls.kind,
            capacity=capacity,
            fpr=fpr,
            layout=layout,
            seed=seed,
            key_form=key_form,
            metadata=metadata,
            overfill=overfill,
        )
        return cls._of_memory(header)

    # -- keys --------------------------------------------------------------------------------------

    def update(self, keys: object, *, nulls: Nulls = "raise") -> int:
        """Add a batch of keys; return how many were new.

        Args:
            keys: as for contains_many().
            nulls: "raise", or "skip" the nulls of Arrow data.

        Raises:
            KeyTypeError, KeyValueError: a bad key. Of a list, an array or Arrow data nothing was
                added. An iterator is taken 2**20 keys at a time; of the piece with the bad key
                nothing was added.
            CapacityError: the filter is full. The keys before the one that did not fit were added.

        Cost: 16 bytes a key while it runs, for arrays and Arrow data at most 16 MiB.
        """
        num_new = 0
        for hashes in self._hashes_to_change(keys, nulls):
            try:
                num_new += self._add_hashes(hashes)
            except CapacityError as exc:
                total = num_new + (exc.num_added or 0)
                raise CapacityError(exc.where, exc.capacity, total) from None
        return num_new

    def _hashes_to_change(self, keys: object, nulls: Nulls) -> Iterable[bytearray]:
        """Return the hashes of a batch, piece by piece, if this handle can change the filter."""
        header = self._header
        self._check_writable()
        pieces = pieces_of(keys, nulls)
        hashed = (hash_batch(piece.batch, header.seed, header.key_form) for piece in pieces)
        # In another form than raw any piece can hold a bad key.
        return list(hashed) if header.key_form else hashed

    def __eq__(self, other: object) -> bool:
        """Tell whether both answer alike for every key: same kind and parameters, same bytes.

        Cost: a pass over both.
        """
        if not isinstance(other, AddingHandle) or other.kind != self.kind:
            return NotImplemented
        left, right = self._whole(), other._whole()
        with left._whole_payload() as mine, right._whole_payload() as its:
            return combining.same_identity(left, right) and payloads_equal(mine, its)

    __hash__ = None  # type: ignore[assignment]  # equal by content, which changes

    def clear(self) -> None:
        """Forget all keys: the whole payload and the count become 0. A file is flushed."""
        self._clear_bits(None, "clear", 0)

    def _clear_bits(self, other: memoryview | None, operation: str, keys_added: int) -> None:
        """Change the payload so that keys may go: FORMAT.md, "Clear bits"."""
        with self._shrinking:  # one at a time, and no flush stores a canary until it is done
            with self._mutex:
                self._check_writable()
                storage = self._storage
                if isinstance(storage, WritableFile):
                    stored = storage.status
                    flags = stored.flags & WRITER_OPEN
                    bare = stored._replace(keys_added=0, flags=flags, key_set=0, canaries=())
                    storage.flush(bare)
            self._combine(other, operation, keys_added)
            with self._mutex:
                self._canary_hashes = self._found(self._canary_hashes)
        self.flush()

"""The Bloom filter: the kind that can be added to.

What a call means and what it refuses. Bits are set and read by the engine's BloomCore, an ancestor
of BloomFilter, so that ``key in f`` costs no Python frame. ``facts`` has what a filter tells of
itself, ``handle`` its life while it is open, ``combining`` what two of them have in common, and
``sizing`` and ``estimates`` the formulas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from mmbloom.engine import hash_batch, payloads_equal
from mmbloom.errors import CapacityError, VersionError
from mmbloom.files.publish import NewFile
from mmbloom.files.reading import Reading
from mmbloom.files.writable import WritableFile
from mmbloom.filters import combining
from mmbloom.filters.lookup import lookup
from mmbloom.filters.parameters import header_for
from mmbloom.filters.reloading import ReloadableHandle
from mmbloom.format.fields import HEADER, WRITER_OPEN
from mmbloom.format.status import Status
from mmbloom.keys.batches import pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from mmbloom.files.advice import Advice
    from mmbloom.files.mapped import Mode
    from mmbloom.files.paths import FilePath
    from mmbloom.filters.parameters import Seed
    from mmbloom.keys.pieces import Nulls

    Answers = np.ndarray[Any, np.dtype[np.bool_]]


class BloomFilter(ReloadableHandle):
    """A fixed-size Bloom filter, in a mapped file or in memory.

    Guarantee: a key that was added is never answered "definitely not". *capacity* distinct keys
        always fit.
    Durability: what add() and update() have returned for is seen by other processes at once, and
        survives power loss after flush() or close(). A sealed file never changes again.
    Sharing: one writer and any number of readers, on one host. Threads may look up, add and close
        at the same time; batches release the GIL. A forked child may go on with readers, and with
        filters in memory as copies of its own; a writer is closed there, and so is what another
        thread was changing. Pickling a reader stores path and UUID, not the bits.
    Limits: no removal, no growth. A key never added is answered "maybe" with chance expected_fpr();
        somebody who knows the seed can choose keys that always are.
    """

    # -- making and opening ------------------------------------------------------------------------

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
            capacity: distinct keys it is sized for, 1 to 2**48.
            fpr: false-positive rate with that many in, 1e-12 <= fpr < 1.
            layout: "classic", "line", "page", or "auto": see ``mmbloom.plan``.
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
            capacity=capacity,
            fpr=fpr,
            layout=layout,
            seed=seed,
            key_form=key_form,
            metadata=metadata,
            overfill=overfill,
        )
        with NewFile(path, header.file_bytes) as new:
            new.write(0, header.pack(Status()))
            new.publish()
        return cls.open_writable(path)

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
            capacity=capacity,
            fpr=fpr,
            layout=layout,
            seed=seed,
            key_form=key_form,
            metadata=metadata,
            overfill=overfill,
        )
        return cls._of_memory(header)

    @classmethod
    def open(
        cls,
        path: FilePath,
        *,
        advice: Advice = "random",
        mode: Mode = "map",
        follow: float | None = None,
        expected_digest: str | None = None,
    ) -> Self:
        """Open a filter file read-only. Nothing else needs to be known of it.

        Args:
            path: any path type. Mode 0444 is enough; nothing is written, not even a time stamp.
            advice: how the system should read it: "random" (one page a look-up), "normal" (read
                ahead), "willneed" (start reading all of it), "preload" (read all of it before
                returning). Without meaning for the other modes than "map".
            mode: where look-ups read. "map": a shared map, the fastest; a file that is cut short
                in place kills the process that touches the missing part (SIGBUS). "ram": a copy in
                private memory, verified byte by byte on opening; sealed files only. "pread": system
                calls for the pages of each look-up, so that a cut or a failing disk is an error.
                The last two are for network and user-space file systems.
            follow: look at most every so many seconds, on look-ups, whether another file was
                published under the path, and change to it as reload_if_changed() does. Where that
                fails, the old one goes on answering, with a RuntimeWarning and ``reload_error``.
            expected_digest: what ``mmbloom.file_digest`` gave for the file that is wanted. The
                whole file is read and compared. Who may write to the file can still change it
                later, but for mode "ram".

        Raises:
            FormatError: no filter, or one that would not answer truthfully; TruncatedError,
                VersionError and ChecksumError are kinds of it.
            OSError: what the operating system says.

        Cost: one page read, whatever the size, and one more for each of up to 8 canaries; with
        "ram" or *expected_digest* all of it. A single look-up costs 10 to 30 ns more with *follow*,
        and takes 20 to 50 us with "pread".
        """
        reading = Reading(advice, mode, expected_digest).checked()
        return cls._of_path(path, reading, follow)

    @classmethod
    def open_writable(cls, path: FilePath) -> Self:
        """Open a filter file that is not sealed, to add to it.

        Args:
            path: any path type.

        Raises:
            LockHeldError: another handle writes it, in this process or another.
            ReadOnlyError: it is sealed.
            VersionError: it has a feature that only newer releases can write.
            FormatError, OSError: as open().

        Cost: as open(). If the last writer died, also one pass over the payload, to count its keys.
        """
        storage = WritableFile.open(path)
        features = storage.header.compatible_features
        if features:
            storage.close()
            offset = HEADER.offsets["compatible_features"]
            found = f"bit {(features & -features).bit_length() - 1}"
            hint = "It can be read, not written, by this release: upgrade mmbloom to write it"
            known = "none that this release does not know"
            raise VersionError(storage.path, "compatible_features", offset, known, found, hint)
        return cls._of_file(storage)

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
        header = self._header
        self._check_writable()
        pieces = pieces_of(keys, nulls)
        hashed: Iterable[bytearray]
        hashed = (hash_batch(piece.batch, header.seed, header.key_form) for piece in pieces)
        if header.key_form:
            hashed = list(hashed)  # in another form than raw any piece can hold a bad key
        num_new = 0
        for hashes in hashed:
            try:
                num_new += self._add_hashes(hashes)
            except CapacityError as exc:
                total = num_new + (exc.num_added or 0)
                raise CapacityError(exc.where, exc.capacity, total) from None
        return num_new

    def contains_many(
        self, keys: object, out: Answers | None = None, *, nulls: Nulls = "raise"
    ) -> Answers:
        """Look up a batch: False for a key that was definitely never added, True for "maybe".

        Args:
            keys: a list, tuple, set or any iterable of str and bytes-like; a NumPy array of dtype
                S, U, StringDType, V or integer, or of bytes with shape (n, width); Arrow data
                (PyCapsule protocol: pyarrow, polars, pandas, duckdb) with one column of text,
                binary or integers.
            out: bool[n] that takes the answers.
            nulls: "raise", or "skip": the answer for an Arrow null is False.

        Returns:
            *out*, or a new bool[n], in the order of the keys.

        Raises:
            KeyTypeError, KeyValueError: a bad key.
            ParameterError: *out* does not fit.

        Cost: about one hash and the lines of the layout for each key (README has figures). The GIL
        is released.
        """
        self._check_open()
        steady = self._steady()
        return lookup(steady, steady._header, steady._storage, pieces_of(keys, nulls), out)

    # -- sets --------------------------------------------------------------------------------------

    def __or__(self, other: object) -> Self:
        """Return the union, in memory: exactly the filter of the keys of both.

        It may be past the capacity: keys_added and expected_fpr() tell. Raises IncompatibleError
        for the first field that differs, ChecksumError as copy().
        """
        return self._combined(other, "or") if isinstance(other, BloomFilter) else NotImplemented

    def __and__(self, other: object) -> Self:
        """Return the bits that both have, in memory.

        An over-approximation of the filter of the common keys: each of those is "maybe", and other
        keys are so more often than in a filter to which only the common keys were added.
        """
        return self._combined(other, "and") if isinstance(other, BloomFilter) else NotImplemented

    def __ior__(self, other: object) -> Self:
        """Add every key of *other*.

        If by estimate the union does not fit: CapacityError, and nothing is changed. In memory it
        takes the payload once more.
        """
        if not isinstance(other, BloomFilter):
            return NotImplemented
        self._check_writable()
        with self | other as union:
            if union.keys_added > self.capacity and not self._header.overfill:
                where = f"{self._where()}, united with about {union.keys_added} keys in all"
                raise CapacityError(where, self.capacity)
            self._combine(union._open_payload(), "or", union.keys_added)
            with self._mutex:
                self._canary_hashes = union._canary_hashes
        return self

    def __iand__(self, other: object) -> Self:
        """Keep the bits that *other* has too. ``&`` says what that over-approximates.

        A file is flushed. In memory it takes the payload twice more.
        """
        if not isinstance(other, BloomFilter):
            return NotImplemented
        self._check_writable()
        # A copy: what is cleared cannot be taken back if the other's file turns out to be cut.
        with other.copy() as theirs, self & theirs as common:
            # With the other's bits, not the common ones: keys that another thread adds meanwhile
            # stay if the other has them.
            self._clear_bits(theirs._open_payload(), "and", common.keys_added)
        return self

    def _combined(self, other: BloomFilter, operation: str) -> Self:
        mine, other = self._whole(), other._whole()
        combining.check_compatible(mine, other)
        result = mine.copy()
        other.verify()
        with other._whole_payload() as theirs:
            result._combine(theirs, operation, 0)
        count = combining.keys_of_union if operation == "or" else combining.keys_of_intersection
        result.keys_added = count(mine, other, result._open_payload())
        result._canary_hashes = result._found(mine._canary_hashes + other._canary_hashes)
        return result

    def __eq__(self, other: object) -> bool:
        """Tell whether both answer alike for every key: same parameters, same bits.

        Cost: a pass over both.
        """
        if not isinstance(other, BloomFilter):
            return NotImplemented
        left, right = self._whole(), other._whole()
        with left._whole_payload() as mine, right._whole_payload() as its:
            return combining.same_identity(left, right) and payloads_equal(mine, its)

    __hash__ = None  # type: ignore[assignment]  # equal by content, which changes

    def clear(self) -> None:
        """Forget all keys: every bit and the count become 0. A file is flushed."""
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

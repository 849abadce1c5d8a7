"""Build in memory: hash every key, sort, drop duplicates, count, size, set the bits, write once.

Holds 16 bytes a key, 32 while sorting, beside the payload. Sorted hashes fall in one sweep over the
payload whatever its size (FORMAT.md, "Hash"), so setting bits costs no cache misses, and the file
does not depend on the order of the keys.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mmbloom.engine import BloomCore, hash_batch, sort_unique, sum_hashes
from mmbloom.errors import CapacityError, ParameterError, SourceError
from mmbloom.files.memory import map_memory
from mmbloom.files.publish import NewFile
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.parameters import header_for
from mmbloom.filters.sealing import write_sealed
from mmbloom.format.fields import FINGERPRINT_KNOWN, HASH, KEYS_EXACT, MAX_CANARIES
from mmbloom.format.status import Status
from mmbloom.keys.batches import pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mmbloom.files.paths import FilePath
    from mmbloom.files.publish import IfExists
    from mmbloom.format.header import Header
    from mmbloom.keys.pieces import Batch, Nulls

_LAST_EPOCH = (1 << 63) // 10**9 - 1  # nanoseconds in 64 bits: as far as the year 2262

Phase = Literal["hash", "sort", "set bits", "write"]


class Progress(NamedTuple):
    """Where a build is: *done* of *total* in its phase, keys or bytes; total 0 is not known."""

    phase: Phase
    done: int
    total: int


class BuildReport(NamedTuple):
    """What a build did. *seconds* is by phase."""

    keys_read: int
    keys_added: int
    file_bytes: int
    seconds: dict[Phase, float]


class Parameters(NamedTuple):
    """What a filter file is built with; see ``build``."""

    fpr: float
    capacity: int | None = None
    layout: str = "auto"
    seed: int = 0
    key_form: str = "raw"
    metadata: dict[str, Any] | None = None


def build(  # noqa: PLR0913 - what the header holds, and the ways to watch and publish
    path: FilePath,
    keys: object,
    *,
    fpr: float,
    capacity: int | None = None,
    layout: str = "auto",
    seed: int = 0,
    key_form: str = "raw",
    metadata: dict[str, Any] | None = None,
    nulls: Nulls = "raise",
    if_exists: IfExists = "raise",
    progress: Callable[[Progress], object] | None = None,
) -> BloomFilter:
    """Build a sealed filter file from keys, and open it read-only.

    Args:
        path: where the file will be; it appears complete or not at all.
        keys: whatever BloomFilter.contains_many takes, an iterator included; their number need not
            be known.
        fpr: false-positive rate with the distinct keys in it, 1e-12 <= fpr < 1.
        capacity: None sizes the filter for exactly the distinct keys. A number makes room for as
            many, for instance to unite it with filters of the same size; it must not be less than
            there are.
        layout: as for BloomFilter.create().
        seed: as for BloomFilter.create().
        key_form: as for BloomFilter.create().
        metadata: as for BloomFilter.create().
        nulls: "raise", or "skip" the nulls of Arrow data.
        if_exists: "raise" FileExistsError, or "replace" the file that is there; its readers keep
            the old one.
        progress: called from this thread as each phase goes on.

    Raises:
        SourceError: there are no keys.
        CapacityError: more distinct keys than *capacity*.
        KeyTypeError, KeyValueError, ParameterError, NoSpaceError, OSError: as for
            BloomFilter.create() and update(). No file is left.

    Cost: 32 bytes of memory a key beside the payload; half a microsecond a key. The bytes of the
    payload depend on the set of keys and the parameters only, not on order or repetitions; the
    whole file does so where the environment variable SOURCE_DATE_EPOCH gives the date.
    """
    parameters = Parameters(fpr, capacity, layout, seed, key_form, metadata)
    batches = (piece.batch for piece in pieces_of(keys, nulls))
    build_from_batches(path, batches, parameters, if_exists, progress)
    return BloomFilter.open(path)


def build_from_batches(
    path: FilePath,
    batches: Iterable[Batch],
    parameters: Parameters,
    if_exists: IfExists = "raise",
    progress: Callable[[Progress], object] | None = None,
) -> BuildReport:
    """Build a sealed file from batches of keys; see ``build``."""
    # Bad parameters are known before the keys are read.
    sample, created_unix_ns = _header(parameters, 1), _date_ns()
    with NewFile(path, 1, if_exists):
        pass  # and so is a path that cannot be written
    report = progress or (lambda _: None)
    clock = _Clock()
    hashes = _hash_all(batches, sample, report)
    num_read = len(hashes) // HASH.size
    clock.stop("hash")
    report(Progress("sort", 0, num_read))
    hashes = sort_unique(hashes)
    num_keys = len(hashes) // HASH.size
    clock.stop("sort")
    header = _header(parameters, num_keys)._replace(created_unix_ns=created_unix_ns)
    if num_keys > header.capacity:
        where = f"{os.fsdecode(path)}: {num_keys} distinct keys in the list"
        raise CapacityError(where, header.capacity)
    report(Progress("set bits", 0, num_keys))
    payload = _payload(header, hashes)
    clock.stop("set bits")

    def written(done: int, total: int) -> None:
        report(Progress("write", done, total))

    header = header._replace(uuid=_identity(header, hashes))
    facts = header, _status(hashes)
    write_sealed(path, header, [payload], lambda _: facts, if_exists=if_exists, progress=written)
    clock.stop("write")
    return BuildReport(num_read, num_keys, header.file_bytes, clock.seconds)


class _Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[Phase, float] = {}
        self._last = time.perf_counter()

    def stop(self, phase: Phase) -> None:
        """End *phase*; the next one begins."""
        now = time.perf_counter()
        self.seconds[phase], self._last = now - self._last, now


def _header(parameters: Parameters, num_keys: int) -> Header:
    """Return the header of a file of *num_keys* distinct keys, or of more if so asked for."""
    return header_for(
        capacity=num_keys if parameters.capacity is None else parameters.capacity,
        fpr=parameters.fpr,
        layout=parameters.layout,
        seed=parameters.seed,
        key_form=parameters.key_form,
        metadata=parameters.metadata,
    )


def _hash_all(
    batches: Iterable[Batch], sample: Header, report: Callable[[Progress], object]
) -> bytearray:
    """Return the hashes of all keys, in order."""
    hashes = bytearray()
    for batch in batches:
        hashes += hash_batch(batch, sample.seed, sample.key_form)
        report(Progress("hash", len(hashes) // HASH.size, 0))
    if not hashes:
        hint = "A filter without keys is made with BloomFilter.create()"
        raise SourceError(f"no keys: the list is empty. {hint}")
    return hashes


def _identity(header: Header, hashes: bytearray) -> bytes:
    """Return the UUID: made of keys and parameters, so that the same list gives the same file."""
    from hashlib import sha256  # OpenSSL takes long to load

    anonymous = header._replace(uuid=bytes(16), created_unix_ns=0)
    keys = sum_hashes(hashes).to_bytes(16, "little")
    return sha256(keys + anonymous.pack(Status())).digest()[:16]


def _date_ns() -> int:
    """Return the date to store: SOURCE_DATE_EPOCH, for builds that are to be the same bytes."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return time.time_ns()
    if not epoch.isdecimal() or int(epoch) > _LAST_EPOCH:
        raise ParameterError("SOURCE_DATE_EPOCH", f"0 to {_LAST_EPOCH} seconds", epoch)
    return int(epoch) * 10**9


def _payload(header: Header, hashes: bytearray) -> memoryview:
    payload = memoryview(map_memory(header.payload_bytes))
    core = BloomCore()
    core._attach(
        payload,
        header.layout,
        header.num_bits,
        header.num_probes,
        header.seed,
        header.key_form,
        writable=True,
        write_through=False,
        keys_added=0,
        limit=None,
    )
    core._add_hashes(hashes)
    core._detach()
    return payload


def _status(hashes: bytearray) -> Status:
    return Status(
        flags=KEYS_EXACT | FINGERPRINT_KNOWN,
        keys_added=len(hashes) // HASH.size,
        key_set=sum_hashes(hashes),
        canaries=tuple(_spread(hashes)),
    )


def _spread(hashes: bytearray) -> Iterator[tuple[int, int]]:
    """Yield up to 8 hashes whose places are spread evenly over the payload."""
    num_keys = len(hashes) // HASH.size
    count = min(MAX_CANARIES, num_keys)
    for i in range(count):
        hi, lo = HASH.unpack_from(hashes, num_keys * i // count * HASH.size)
        yield hi, lo

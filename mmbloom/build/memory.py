"""Build in memory: hash every key, sort, drop duplicates, count, choose the size, set the bits in order, write once.

Holds 16 bytes a key, 32 while sorting, beside the payload. Sorted hashes fall in one sweep over the payload whatever its
size (FORMAT.md, "Hash"), so setting bits costs no cache misses, and the file does not depend on the order of the keys.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mmbloom.engine import BloomCore, hash_batch, sort_unique, sum_hashes
from mmbloom.errors import CapacityError, SourceError
from mmbloom.files.memory import map_memory
from mmbloom.files.publish import NewFile
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.sealing import write_sealed
from mmbloom.filters.sizing import check_capacity, check_fpr, plan
from mmbloom.format.fields import FINGERPRINT_KNOWN, HASH, KEY_FORMS, KEYS_EXACT, MAX_CANARIES
from mmbloom.format.header import Header, check_seed, new_header
from mmbloom.format.status import Status
from mmbloom.keys.batches import Nulls, pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mmbloom.files.paths import FilePath
    from mmbloom.files.publish import IfExists
    from mmbloom.keys.batches import Batch

Phase = Literal["hash", "sort", "set bits", "write"]


class Progress(NamedTuple):
    """Where a build is: *done* of *total* in its phase, keys or bytes; a total of 0 is not known."""

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
        keys: whatever BloomFilter.contains_many takes, an iterator included; their number need not be known.
        fpr: false-positive rate with the distinct keys in it, 1e-12 <= fpr < 1.
        capacity: None sizes the filter for exactly the distinct keys. A number makes room for as many, for instance to
            unite it with filters of the same size; it must not be less than there are.
        layout, seed, key_form, metadata: as for BloomFilter.create().
        nulls: "raise", or "skip" the nulls of Arrow data.
        if_exists: "raise" FileExistsError, or "replace" the file that is there; its readers keep the old one.
        progress: called from this thread as each phase goes on.

    Raises:
        SourceError: there are no keys. CapacityError: more distinct keys than *capacity*. KeyTypeError, KeyValueError,
        ParameterError, NoSpaceError, OSError: as for BloomFilter.create() and update(). No file is left.

    Cost: 32 bytes of memory a key beside the payload; 30 to 60 ns a key. The bytes of the payload depend on the set of
    keys and the parameters only, not on order or repetitions.
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
    _check(parameters)
    with NewFile(path, 1, if_exists):
        pass  # a path that cannot be written is known before the keys are read
    report = progress or (lambda _: None)
    clock = _Clock()
    hashes, keys_read = _hash_all(batches, parameters, report)
    clock.stop("hash")
    report(Progress("sort", 0, keys_read))
    hashes = sort_unique(hashes)
    clock.stop("sort")
    header = _header(hashes, parameters, os.fspath(path))
    report(Progress("set bits", 0, len(hashes) // HASH.size))
    payload = _payload(header, hashes)
    clock.stop("set bits")
    write_sealed(
        path,
        header,
        payload,
        _status(hashes),
        if_exists,
        lambda done, total: report(Progress("write", done, total)),
    )
    clock.stop("write")
    return BuildReport(keys_read, len(hashes) // HASH.size, header.file_bytes, clock.seconds)


class _Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[Phase, float] = {}
        self._last = time.perf_counter()

    def stop(self, phase: Phase) -> None:
        """End *phase*; the next one begins."""
        now = time.perf_counter()
        self.seconds[phase], self._last = now - self._last, now


def _check(parameters: Parameters) -> None:
    """Refuse bad parameters before any key is read."""
    check_fpr(parameters.fpr)
    check_seed(parameters.seed)
    capacity = 1 if parameters.capacity is None else check_capacity(parameters.capacity)
    _new_header(parameters, capacity, bytes(16))


def _hash_all(
    batches: Iterable[Batch], parameters: Parameters, report: Callable[[Progress], object]
) -> tuple[bytearray, int]:
    """Return the hashes of all keys, in order, and their number."""
    hashes = bytearray()
    form = KEY_FORMS[parameters.key_form]
    for batch in batches:
        hashes += hash_batch(batch, parameters.seed, form)
        report(Progress("hash", len(hashes) // HASH.size, 0))
    if not hashes:
        raise SourceError("no keys: the list is empty. A filter without keys is made with BloomFilter.create()")
    return hashes, len(hashes) // HASH.size


def _header(hashes: bytearray, parameters: Parameters, where: str) -> Header:
    num_keys = len(hashes) // HASH.size
    capacity = num_keys if parameters.capacity is None else parameters.capacity
    if num_keys > capacity:
        raise CapacityError(f"{where}: {num_keys} distinct keys in the list", capacity)
    # Keys and parameters make the identity: the same list gives the same file, apart from its date.
    identity = f"{sum_hashes(hashes):032x} {num_keys} {capacity} {parameters}"
    return _new_header(parameters, capacity, hashlib.sha256(identity.encode()).digest()[:16])


def _new_header(parameters: Parameters, capacity: int, uuid: bytes) -> Header:
    geometry = plan(capacity, parameters.fpr, parameters.layout)
    return new_header(
        layout=geometry.layout,
        num_bits=geometry.num_bits,
        num_probes=geometry.num_probes,
        capacity=capacity,
        fpr=parameters.fpr,
        uuid=uuid,
        created_unix_ns=_now_ns(),
        seed=parameters.seed,
        key_form=parameters.key_form,
        metadata=parameters.metadata,
    )


def _now_ns() -> int:
    """Return the time to store: SOURCE_DATE_EPOCH where it is set, so that builds can be reproduced to the byte."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return int(epoch) * 10**9 if epoch.isdecimal() else time.time_ns()


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

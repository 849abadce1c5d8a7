"""A list of keys becomes a file: read, hash, partition, sort, count, size, assemble, write.

The number of keys need not be known, and they need not fit in memory. ``store`` and ``loading``
hold them, ``assemble`` and ``direct`` make the payload of a Bloom filter, plain or counting,
``fuse`` that of a fuse filter; here is the order of the steps.
"""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

from mmbloom.building.assemble import payload_pieces
from mmbloom.building.budget import memory_budget, num_jobs
from mmbloom.building.checkpoint import Checkpoint, discard_stale
from mmbloom.building.direct import DirectPayload, direct_memory_bytes
from mmbloom.building.fuse import FuseShards, budget_error, most_lane_bytes
from mmbloom.building.hashes import HashStore
from mmbloom.building.key_reader import Reading
from mmbloom.building.loading import Loader
from mmbloom.building.parameters import Parameters, Resources
from mmbloom.building.progress import BuildReport, Reporter
from mmbloom.building.thread_pool import Crew
from mmbloom.errors import CapacityError, ParameterError
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.fuse import FuseFilter
from mmbloom.filters.fuse_payload import with_more_segments
from mmbloom.filters.measure import least_of
from mmbloom.filters.parameters import chosen_seed, content_uuid, creation_ns
from mmbloom.filters.sealing import write_changeable, write_sealed
from mmbloom.format.fields import FINGERPRINT_KNOWN, KEYS_EXACT
from mmbloom.format.status import Status
from mmbloom.sizing.bloom import Geometry
from mmbloom.sizing.estimates import estimate_keys
from mmbloom.sources.list_reader import KeyList
from mmbloom.storage.journal import Journal
from mmbloom.storage.paths import path_text
from mmbloom.storage.publish import NewFile
from mmbloom.storage.spill import SpillFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Required, TypedDict, Unpack

    from _typeshed import ReadableBuffer

    from mmbloom.building.loading import Counted
    from mmbloom.building.progress import Progress
    from mmbloom.filters.parameters import Seed
    from mmbloom.filters.sealing import Measured
    from mmbloom.format.fuse import FuseShape
    from mmbloom.format.header import Header
    from mmbloom.keys.pieces import Nulls
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.publish import IfExists

    class _Options(TypedDict, total=False):
        """The parameters of build() beside *kind*, on which the type of the result depends."""

        fpr: Required[float]
        capacity: int | None
        layout: str
        seed: Seed
        key_form: str
        metadata: dict[str, Any] | None
        nulls: Nulls
        if_exists: IfExists
        memory: SupportsIndex | None
        jobs: SupportsIndex | None
        spill_folder: FilePath | None
        exact: bool
        resume: bool
        progress: Callable[[Progress], object] | None
        report: Callable[[BuildReport], object] | None


_ANY_RESOURCES = Resources()
_CLASSES: dict[str, type[BloomFilter | FuseFilter | CountingBloomFilter]] = {
    "bloom": BloomFilter,
    "fuse": FuseFilter,
    "counting": CountingBloomFilter,
}


@overload
def build(
    path: FilePath, keys: object, *, kind: Literal["bloom"] = ..., **options: Unpack[_Options]
) -> BloomFilter: ...
@overload
def build(
    path: FilePath, keys: object, *, kind: Literal["fuse"], **options: Unpack[_Options]
) -> FuseFilter: ...
@overload
def build(
    path: FilePath, keys: object, *, kind: Literal["counting"], **options: Unpack[_Options]
) -> CountingBloomFilter: ...
def build(  # noqa: PLR0913 - what the header holds, what it may use, and the ways to watch and publish
    path: FilePath,
    keys: object,
    *,
    kind: str = "bloom",
    fpr: float,
    capacity: int | None = None,
    layout: str = "auto",
    seed: Seed = 0,
    key_form: str = "raw",
    metadata: dict[str, Any] | None = None,
    nulls: Nulls = "raise",
    if_exists: IfExists = "raise",
    memory: SupportsIndex | None = None,
    jobs: SupportsIndex | None = None,
    spill_folder: FilePath | None = None,
    exact: bool = False,
    resume: bool = False,
    progress: Callable[[Progress], object] | None = None,
    report: Callable[[BuildReport], object] | None = None,
) -> BloomFilter | FuseFilter | CountingBloomFilter:
    """Build a filter file from keys, and open it read-only. Kinds "bloom" and "fuse" are sealed.

    Args:
        path: where the file will be; it appears complete or not at all.
        keys: whatever BloomFilter.contains_many takes, an iterator included, or a list opened by
            read_list() or read_lists(); how many there are need not be known. It is gone through
            once, in this thread.
        kind: "bloom"; "fuse", which is smaller, and which no key can be added to later; or
            "counting", from which keys can be removed: open_writable() does, the file is not
            sealed. Each distinct key counts once, however often it is in *keys*, so it is
            removed by one remove().
        fpr: false-positive rate with the distinct keys in it, 1e-12 <= fpr < 1. Kind "fuse" has the
            next power of two below it, and 2**-32 at least.
        capacity: None sizes the filter for exactly the distinct keys. A number makes room for as
            many, for instance to unite it with filters of the same size; it must not be less than
            there are. With a number, more than 8 million keys that are read, and a filter that
            fits in *memory*, repetitions are not dropped: faster, and the count is an estimate.
            Not for kind "fuse", which has room for its own keys only. Kind "counting" needs it for
            keys that come before others have left; repetitions are always dropped.
        layout: as for BloomFilter.create(). For kind "fuse": "fuse3", or "fuse4", 4 % smaller with
            one more cache line a look-up; "auto" is "fuse3".
        seed: as for BloomFilter.create(); a number with *resume*.
        key_form: as for BloomFilter.create().
        metadata: as for BloomFilter.create().
        nulls: "raise", or "skip" the nulls of Arrow data.
        if_exists: "raise" FileExistsError, or "replace" the file that is there; its readers keep
            the old one.
        memory: bytes to use, at least 32 MiB; None is a quarter of what is free. Keys beyond it
            go to a spill file, 16 bytes each. Kind "fuse" takes 35 to 40 bytes for each key of the
            shards under work, of which each has 4 million at most.
        jobs: threads; None is one a core that this process may run on.
        spill_folder: where the spill file is made; None is the folder of *path*. The file has no
            name there, and is gone when the process is.
        exact: count the distinct keys one by one, *capacity* or not.
        resume: keep what has been read in a folder beside the spill file, ``.NAME.resume``, and go
            on with what an interrupted build has left there. For lists only. All hashes go to the
            spill file then.
        progress: called from this thread as the build goes on, several times a second.
        report: called once, when the file is there.

    Raises:
        SourceError: there are no keys (kind "fuse" may have none), or a list cannot be read as one.
        CapacityError: more distinct keys than *capacity*; where their number is an estimate, more
            beyond chance.
        MemoryBudgetError: *memory* is not enough for so many jobs or keys.
        ConstructionError: kind "fuse", and the hashes of the keys were chosen so that none holds
            them.
        LockHeldError: *resume*, and another build of the same file runs.
        KeyTypeError, KeyValueError, ParameterError, NoSpaceError, OSError: as for
            BloomFilter.create() and update(). No file is left.

    Cost: 16 bytes of memory a key, or what *memory* says; 100 ns of one core a line of text, and 70
    ns more for kind "fuse". The bytes of the payload depend on the set of keys and the parameters
    only, not on order, repetitions, memory or jobs; the whole file does so where the environment
    variable SOURCE_DATE_EPOCH gives the date.
    """
    parameters = Parameters(fpr, capacity, layout, seed, key_form, metadata, kind)
    resources = Resources(memory, jobs, spill_folder, exact, resume)
    built = build_file(path, keys, parameters, resources, nulls, if_exists, progress)
    if report is not None:
        report(built)
    return _CLASSES[kind].open(path)


def build_file(  # noqa: PLR0913, PLR0917 - as build(), in groups
    path: FilePath,
    keys: object,
    parameters: Parameters,
    resources: Resources = _ANY_RESOURCES,
    nulls: Nulls = "raise",
    if_exists: IfExists = "raise",
    progress: Callable[[Progress], object] | None = None,
) -> BuildReport:
    """Build a file, and leave it closed; see ``build``."""
    return _Build(path, parameters, resources, if_exists, progress).run(keys, nulls)


class _Build:
    """One build: what it was asked for, and the order of its steps."""

    def __init__(
        self,
        path: FilePath,
        parameters: Parameters,
        resources: Resources,
        if_exists: IfExists,
        progress: Callable[[Progress], object] | None,
    ) -> None:
        if resources.resume and parameters.seed == "random":
            hint = "a build that goes on must hash as the one before it"
            raise ParameterError("seed", "a number, with resume", parameters.seed, hint)
        # Once: the headers of the whole build have the same.
        self._parameters = parameters._replace(seed=chosen_seed(parameters.seed))
        self._path, self._if_exists = path_text(path), if_exists
        self._created_ns = creation_ns()
        self._sample = self._dated(self._parameters.sample_header())
        self._memory_bytes = memory_budget(resources.memory)
        self._jobs = num_jobs(resources.jobs, self._memory_bytes)
        # Without it shards could not be constructed, once all keys have been read.
        self._lane_bytes = (
            most_lane_bytes(parameters.fpr, parameters.layout) if self._is_fuse else 0
        )
        folder, name = os.path.split(self._path)
        self._spill_folder = path_text(
            folder if resources.spill_folder is None else resources.spill_folder
        )
        self._journal_path = os.path.join(self._spill_folder, f".{name}.resume")
        self._resumes = resources.resume
        self._is_direct = (
            parameters.capacity is not None
            and parameters.kind == "bloom"  # bits alone do not mind repetitions
            and not resources.exact
            and not resources.resume
            and self._sample.payload_bytes + direct_memory_bytes(self._jobs) <= self._memory_bytes
        )
        self._reporter = Reporter(progress)

    @property
    def _is_fuse(self) -> bool:
        return self._parameters.kind == "fuse"

    def run(self, keys: object, nulls: Nulls) -> BuildReport:
        """Build from *keys*."""
        if (
            self._if_exists == "replace"
            and isinstance(keys, KeyList)
            and keys.reads_from(self._path)
        ):
            raise ParameterError("path", "a file that is none of the lists", self._path)
        # What would fail after hours is tried before the keys are read.
        is_sized = self._parameters.capacity is not None
        with NewFile(self._path, self._sample.file_bytes if is_sized else 1, self._if_exists):
            pass
        with ExitStack() as stack:
            checkpoint = self._checkpoint(stack, keys, nulls)
            crew = stack.enter_context(Crew(self._jobs))
            store = stack.enter_context(self._store(crew, checkpoint))
            direct = DirectPayload(self._sample, crew) if self._is_direct else None
            reading = Reading(
                keys, store, crew, self._reporter, direct=direct, checkpoint=checkpoint
            )
            reading.read(self._sample, nulls)
            if direct is not None and reading.is_direct:
                status = self._write_direct(direct, reading.keys_read)
            else:
                status = self._write_exact(store, crew)
            report = self._report(reading, status, store.spilled_bytes)
            if checkpoint is not None:
                checkpoint.state = None  # nobody has to go on from it
        if checkpoint is None:
            discard_stale(self._journal_path)
        return report

    def _checkpoint(self, stack: ExitStack, keys: object, nulls: Nulls) -> Checkpoint | None:
        """Return the checkpoint to go on from, or to begin; one that stays without state goes."""
        if not self._resumes:
            return None
        if not isinstance(keys, KeyList):
            rule = "False: only lists opened by read_list() or read_lists() can be read again"
            raise ParameterError("resume", rule, found=True)
        signature = {
            "lists": keys.signature(),
            "nulls": nulls,
            "target": os.path.abspath(self._path),
        }
        signature |= self._parameters._asdict()
        journal = stack.enter_context(Journal(self._journal_path))
        checkpoint = Checkpoint(journal, signature)
        stack.callback(checkpoint.discard_without_state)
        return checkpoint

    def _store(self, crew: Crew, checkpoint: Checkpoint | None) -> HashStore:
        if checkpoint is not None:
            return HashStore(self._memory_bytes, crew, checkpoint.open_spill)
        memory_bytes = direct_memory_bytes(self._jobs) if self._is_direct else self._memory_bytes
        return HashStore(memory_bytes, crew, self._begin_spilling)

    def _begin_spilling(self) -> SpillFile:
        """Make the spill file, for more keys than memory holds."""
        if self._lane_bytes > self._memory_bytes:
            raise budget_error(self._memory_bytes, self._lane_bytes * 4 // 3)
        return SpillFile.unnamed(self._spill_folder)

    def _write_exact(self, store: HashStore, crew: Crew) -> Status:
        """Count the distinct keys, size the filter for them, and write it."""
        self._reporter.begin("sort")
        loader = Loader.of_store(store, crew, self._lane_bytes)
        counted = loader.count(lambda done, total: self._reporter.tell(done, total, "partitions"))
        if self._is_fuse:
            shards = FuseShards(counted.counts, self._parameters.fpr, self._parameters.layout)
            if store.spill is None and loader.used_bytes + shards.lane_bytes > self._memory_bytes:
                del loader  # with the buffers, before others are made
                store.restore(SpillFile.unnamed(self._spill_folder), [])
                self._reporter.begin("spill")
                store.spill_all(lambda done, total: self._reporter.tell(done, total, "bytes"))
                loader = Loader.of_store(store, crew, self._lane_bytes)
            return self._write_fuse(shards, counted, loader)
        header = self._dated(self._parameters.bloom_header(counted.num_keys))
        if counted.num_keys > header.capacity:
            where = f"{self._path}: {counted.num_keys} distinct keys in the list"
            raise CapacityError(where, header.capacity)
        pieces = payload_pieces(header, loader, crew, self._memory_bytes)
        return self._write_counted(header, pieces, counted)

    def _write_fuse(self, shards: FuseShards, counted: Counted, loader: Loader) -> Status:
        """Construct the shards, and write them as they come."""

        def write(shape: FuseShape) -> Status:
            header = self._dated(self._parameters.fuse_header(counted.num_keys, shape))
            pieces = shards.pieces(shape, loader, self._jobs, self._memory_bytes)
            return self._write_counted(header, pieces, counted)

        return with_more_segments(shards.shape, write)

    def _write_counted(
        self, header: Header, pieces: Iterable[ReadableBuffer], counted: Counted
    ) -> Status:
        """Write a payload whose keys were counted one by one."""

        def finish(_: Measured) -> tuple[Header, Status]:
            key_set = counted.key_set.to_bytes(16, "little")
            return header._replace(uuid=content_uuid(header, key_set)), Status(
                flags=KEYS_EXACT | FINGERPRINT_KNOWN,
                keys_added=counted.num_keys,
                key_set=counted.key_set,
                canaries=counted.canaries,
            )

        return self._write(header, pieces, finish)

    def _write_direct(self, direct: DirectPayload, keys_read: int) -> Status:
        """Write the payload that is in memory; how many keys it holds is estimated."""
        header = self._sample  # sized for its capacity in any case
        geometry = Geometry(header.layout_name, header.num_bits, header.num_probes)

        def finish(measured: Measured) -> tuple[Header, Status]:
            estimate = estimate_keys(geometry, measured.set_bits)
            if least_of(geometry, estimate) > header.capacity:
                where = f"{self._path}: about {round(estimate)} distinct keys in the list"
                raise CapacityError(where, header.capacity)
            keys_added = min(round(estimate), header.capacity, keys_read)
            content = measured.checksum_root.to_bytes(8, "little")
            return header._replace(uuid=content_uuid(header, content)), Status(
                keys_added=keys_added, canaries=direct.canaries()
            )

        return self._write(header, direct.pieces(), finish)

    def _write(
        self,
        header: Header,
        pieces: Iterable[ReadableBuffer],
        finish: Callable[[Measured], tuple[Header, Status]],
    ) -> Status:
        self._reporter.begin("assemble")
        write = write_changeable if self._parameters.kind == "counting" else write_sealed
        return write(
            self._path,
            header,
            pieces,
            finish,
            if_exists=self._if_exists,
            progress=lambda done, total: self._reporter.tell(done, total, "bytes"),
        )

    def _dated(self, header: Header) -> Header:
        return header._replace(created_unix_ns=self._created_ns)

    def _report(self, reading: Reading, status: Status, spilled_bytes: int) -> BuildReport:
        tally = reading.tally()
        return BuildReport(
            keys_read=reading.keys_read,
            keys_resumed=reading.keys_before,
            keys_added=status.keys_added,
            is_exact=bool(status.flags & KEYS_EXACT),
            lines_read=tally.lines_read,
            bytes_read=tally.bytes_read,
            bad_lines=tally.bad_lines,
            file_bytes=os.stat(self._path).st_size,
            spilled_bytes=spilled_bytes,
            peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            seconds=self._reporter.end(),
        )

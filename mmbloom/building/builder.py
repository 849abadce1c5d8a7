"""A list of keys becomes a file: the order of the steps, and what each of them is given.

The keys need not fit in memory, and their number need not be known. They are read and hashed into
partitions (``key_reader``, ``hashes``), whose distinct keys are counted (``loading``). The kind of
the filter makes the payload from them (``mmbloom.kinds``), which is written once (``writing``).
"""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack
from typing import TYPE_CHECKING

from mmbloom.building.budget import direct_memory_bytes
from mmbloom.building.checkpoint import Checkpoint, discard_stale
from mmbloom.building.hashes import KeyHashes
from mmbloom.building.key_reader import KeyReader
from mmbloom.building.loading import Loader
from mmbloom.building.thread_pool import ThreadPool
from mmbloom.building.writing import Writing
from mmbloom.errors import ConstructionError, MemoryBudgetError, ParameterError
from mmbloom.filters.build_report import BuildReport
from mmbloom.format.fields import KEYS_EXACT
from mmbloom.kinds import kind_named
from mmbloom.kinds.spec import creation_ns
from mmbloom.sources.list_reader import ListReader
from mmbloom.storage.journal import Journal
from mmbloom.storage.progress import Reporter
from mmbloom.storage.publish import NewFile
from mmbloom.storage.spill import SpillFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmbloom.building.budget import Resources
    from mmbloom.format.status import Status
    from mmbloom.keys.pieces import Nulls
    from mmbloom.kinds.partitions import Counted
    from mmbloom.kinds.spec import FilterSpec
    from mmbloom.storage.progress import Progress
    from mmbloom.storage.publish import IfExists


class Builder:
    """One build: what was asked for, and the order of its steps."""

    def __init__(
        self,
        path: str,
        spec: FilterSpec,
        resources: Resources,
        if_exists: IfExists,
        progress: Callable[[Progress], object] | None,
    ) -> None:
        """Check what does not need the keys."""
        self._path, self._spec, self._resources = path, spec, resources
        self._if_exists = if_exists
        self._kind = kind_named(spec.kind)
        created_ns = creation_ns()
        # Keys are hashed as it says. With a capacity, it has the size of the file too.
        self._header = self._kind.header(spec, 1)._replace(created_unix_ns=created_ns)
        # Checked before any key is read: without this memory the payload could not be made later.
        self._lane_bytes = self._kind.lane_bytes(spec)
        name = f".{os.path.basename(path)}.resume"
        self._journal_path = os.path.join(resources.spill_folder, name)
        self._reporter = Reporter(progress, "hash", "keys")
        self._writing = Writing(path, self._kind, created_ns, if_exists, self._reporter)

    def run(self, keys: object, nulls: Nulls) -> BuildReport:
        """Build from *keys*."""
        self._check_target(keys)
        with ExitStack() as stack:
            checkpoint = self._checkpoint(stack, keys, nulls)
            pool = stack.enter_context(ThreadPool(self._resources.jobs))
            hashes = stack.enter_context(self._key_hashes(pool, checkpoint))
            direct = self._kind.direct(self._header, pool) if self._may_be_direct else None
            reader = KeyReader(
                keys, hashes, pool, self._reporter, direct=direct, checkpoint=checkpoint
            )
            reader.read(self._header, nulls)
            if direct is not None and reader.is_direct:
                status = self._writing.write_direct(self._header, direct, reader.keys_read)
            else:
                status = self._write_counted(hashes, pool)
            report = self._report(reader, status, hashes.spilled_bytes)
            if checkpoint is not None:
                checkpoint.state = None  # the build is complete: nothing to continue from
        if checkpoint is None:
            discard_stale(self._journal_path)
        return report

    def _check_target(self, keys: object) -> None:
        """Find out what would fail after hours: a path that cannot be written, a disk too full."""
        if (
            self._if_exists == "replace"
            and isinstance(keys, ListReader)
            and keys.reads_from(self._path)
        ):
            raise ParameterError("path", "a file that is not one of the lists", self._path)
        num_bytes = 1 if self._spec.capacity is None else self._header.file_bytes
        with NewFile(self._path, num_bytes, self._if_exists):
            pass

    def _checkpoint(self, stack: ExitStack, keys: object, nulls: Nulls) -> Checkpoint | None:
        """Return the checkpoint to continue from, or to begin. One without state is discarded."""
        if not self._resources.resume:
            return None
        if not isinstance(keys, ListReader):
            rule = "False: only lists opened by read_list() or read_lists() can be read again"
            raise ParameterError("resume", rule, found=True)
        signature = {
            "lists": keys.signature(),
            "nulls": nulls,
            "target": os.path.abspath(self._path),
        }
        signature |= self._spec._asdict()
        journal = stack.enter_context(Journal(self._journal_path))
        checkpoint = Checkpoint(journal, signature)
        stack.callback(checkpoint.discard_without_state)
        return checkpoint

    @property
    def _may_be_direct(self) -> bool:
        """Whether keys may go to a payload in memory as they are read, without being counted."""
        asked, needed = self._resources, direct_memory_bytes(self._resources.jobs)
        return (
            self._spec.capacity is not None
            and not (self._kind.needs_distinct or asked.exact or asked.resume)
            and self._header.payload_bytes + needed <= asked.memory_bytes
        )

    def _key_hashes(self, pool: ThreadPool, checkpoint: Checkpoint | None) -> KeyHashes:
        if checkpoint is not None:
            return KeyHashes(self._resources.memory_bytes, pool, checkpoint.open_spill)
        memory_bytes = self._resources.memory_bytes
        if self._may_be_direct:  # the payload has the rest
            memory_bytes = direct_memory_bytes(self._resources.jobs)
        return KeyHashes(memory_bytes, pool, self._make_spill)

    def _make_spill(self) -> SpillFile:
        """Make the spill file, for more keys than memory holds."""
        memory_bytes = self._resources.memory_bytes
        if self._lane_bytes > memory_bytes:
            reason = "the payload must be made in memory"
            raise MemoryBudgetError(memory_bytes, self._lane_bytes * 4 // 3, reason)
        return SpillFile.unnamed(self._resources.spill_folder)

    def _write_counted(self, hashes: KeyHashes, pool: ThreadPool) -> Status:
        """Count the distinct keys, and write the first payload that the kind can make of them."""
        self._reporter.begin("sort", "partitions")
        loader = Loader.of_hashes(hashes, pool, self._lane_bytes)
        counted = loader.count(self._reporter.tell)
        lane_bytes = self._kind.lane_bytes(self._spec, counted.counts)
        needed = loader.used_bytes + lane_bytes
        if lane_bytes and hashes.spill is None and needed > self._resources.memory_bytes:
            del loader  # and its buffers, before others are made
            hashes.restore(SpillFile.unnamed(self._resources.spill_folder), [])
            self._reporter.begin("spill", "bytes")
            hashes.spill_all(self._reporter.tell)
            loader = Loader.of_hashes(hashes, pool, self._lane_bytes)
        return self._first_that_works(counted, loader, pool)

    def _first_that_works(self, counted: Counted, loader: Loader, pool: ThreadPool) -> Status:
        attempts = self._kind.attempts(
            self._spec, counted, loader, pool, self._resources.memory_bytes
        )
        errors: list[ConstructionError] = []
        for header, pieces in attempts:
            try:
                return self._writing.write_counted(header, pieces, counted)
            except ConstructionError as exc:
                errors.append(exc)
        raise errors[-1]

    def _report(self, reader: KeyReader, status: Status, spilled_bytes: int) -> BuildReport:
        tally = reader.tally()
        return BuildReport(
            keys_read=reader.keys_read,
            keys_resumed=reader.keys_resumed,
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

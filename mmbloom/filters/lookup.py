"""Batches of look-ups: where the answers go, and how a cold file is read.

A filter in the page cache is looked up piece by piece, hash and probe fused. Of a large file that
is not, each look-up would wait for one page: there the pages of a few thousand keys are asked for
at once, and the disk reads them side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.engine import FilterCore, hash_batch
from mmbloom.errors import ClosedError, ParameterError
from mmbloom.format.fields import HASH
from mmbloom.storage.mapped import MappedFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from mmbloom.format.header import Header
    from mmbloom.keys.pieces import Batch, Piece
    from mmbloom.storage.writable import WritableFile

    Answers = np.ndarray[Any, np.dtype[np.bool_]]

# Below this a batch does not repay the question whether the file is cold (~10 us), nor a file its
# reading ahead.
_FEWEST_KEYS = 16
_SMALLEST_BYTES = 16 << 20
# Keys whose pages are asked for together: enough for the queue of any disk, and a small part of the
# page cache.
_COLD_KEYS = 4096


def lookup(
    core: FilterCore,
    header: Header,
    storage: MappedFile | WritableFile | None,
    pieces: Iterator[Piece],
    out: Answers | None,
) -> Answers:
    """Answer every key of *pieces*, in order; see FilterHandle.contains_many."""
    import numpy as np

    if out is not None:
        _check_out(out)
    parts: list[Answers] = [np.empty(0, np.bool_)]
    done = 0
    for piece in pieces:
        # Of lines the number of rows is an upper bound, so they may fit although it does not.
        fits = out is not None and done + piece.num_rows <= len(out)
        room = out[done:] if fits and out is not None else np.empty(piece.num_rows, np.bool_)
        count = _answer(core, header, storage, piece, room[: piece.num_rows])
        if out is None:
            parts.append(room[:count])
        elif done + count > len(out):
            raise ParameterError("out", f"one answer a key, so {done + count} or more", len(out))
        elif not fits:
            out[done : done + count] = room[:count]
        done += count
    if out is None:
        return parts[1] if len(parts) == 2 else np.concatenate(parts)  # noqa: PLR2004 - one piece
    if done != len(out):
        raise ParameterError("out", f"one answer a key, so {done}", len(out))
    return out


def _check_out(out: Any) -> None:  # noqa: ANN401 - whatever was given
    import numpy as np

    if not isinstance(out, np.ndarray):
        found = type(out).__name__
    elif out.dtype != np.bool_ or out.ndim != 1:
        found = f"{out.dtype} of shape {out.shape}"
    elif not (out.flags.c_contiguous and out.flags.writeable):
        found = "one with gaps" if out.flags.writeable else "a read-only one"
    else:
        return
    raise ParameterError("out", "a writable, contiguous numpy array bool[n]", found)


def _answer(
    core: FilterCore,
    header: Header,
    storage: MappedFile | WritableFile | None,
    piece: Piece,
    part: Answers,
) -> int:
    """Answer the rows of *piece* into *part*; return how many there were."""
    import numpy as np

    answers = part if piece.valid is None else np.empty(len(piece.batch), np.bool_)
    view = answers.view(np.uint8).data
    if isinstance(storage, MappedFile):
        _check_length(storage)  # a touch of what is gone would kill the process
    large = len(piece.batch) >= _FEWEST_KEYS and header.payload_bytes >= _SMALLEST_BYTES
    if large and isinstance(storage, MappedFile) and _is_cold(storage):
        count = _answer_cold(core, header, storage, piece.batch, view)
    else:
        count = core._contains_batch(piece.batch, view)
    if isinstance(storage, MappedFile):
        _check_length(storage)  # the last page of a file that was cut is filled up with zeros
    if piece.valid is None:
        return count
    part[:] = False
    part[piece.valid] = answers
    return piece.num_rows


def _check_length(storage: MappedFile) -> None:
    try:
        storage.check_length()
    except ClosedError:  # by another thread: the payload stays until this batch is over
        return


def _is_cold(storage: MappedFile) -> bool:
    if storage.mode != "map":
        return False  # what is asked ahead there, if anything, is its own business
    from mmbloom.storage.residency import is_cold  # needs ctypes, which takes long to load

    return is_cold(storage)


def _answer_cold(
    core: FilterCore,
    header: Header,
    storage: MappedFile,
    batch: Batch,
    view: memoryview,
) -> int:
    """Answer a batch whose pages are on disk: hash it whole, then ask for the pages ahead."""
    hashes = memoryview(hash_batch(batch, header.seed, header.key_form))
    _answer_cold_hashes(core, storage, hashes, view)
    return len(hashes) // HASH.size


def answer_hashes(
    core: FilterCore,
    storage: MappedFile | WritableFile | None,
    hashes: memoryview,
    view: memoryview,
) -> None:
    """Write one byte 0 or 1 a hash to *view*, reading ahead where the file is cold."""
    if not isinstance(storage, MappedFile):
        core._contains_hashes(hashes, view)
        return
    _check_length(storage)  # as _answer()
    many = len(hashes) >= _FEWEST_KEYS * HASH.size
    if many and storage.header.payload_bytes >= _SMALLEST_BYTES and _is_cold(storage):
        _answer_cold_hashes(core, storage, hashes, view)
    else:
        core._contains_hashes(hashes, view)
    _check_length(storage)


def _answer_cold_hashes(
    core: FilterCore, storage: MappedFile, hashes: memoryview, view: memoryview
) -> None:
    for first in range(0, len(hashes) // HASH.size, _COLD_KEYS):
        some = hashes[HASH.size * first : HASH.size * (first + _COLD_KEYS)]
        pages = core._pages_of(some)
        storage.start_reading(pages)
        storage.page_in_pages(pages)  # waits as a touch would, but for an error instead of a signal
        core._contains_hashes(some, view[first : first + _COLD_KEYS])

"""Batches of look-ups: where the answers go, and how a cold file is read.

A filter in the page cache is looked up piece by piece, hash and probe fused. In a large file that
is not, each look-up would wait for one page: there the pages of many keys are named first, so that
the disk reads them side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.engine import hash_batch
from mmbloom.errors import ParameterError
from mmbloom.format.fields import HASH

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from mmbloom.filters.opened import Opened
    from mmbloom.keys.pieces import Piece

    Answers = np.ndarray[Any, np.dtype[np.bool_]]

# A smaller batch is not worth the question whether the file is cold (~10 us).
_FEWEST_KEYS = 16
# Pages that are named together: enough for the queue of any disk, and at most 16 MiB of memory.
_PAGES_AT_ONCE = 4096


def look_up(opened: Opened, pieces: Iterator[Piece], out: Answers | None) -> Answers:
    """Answer every key of *pieces*, in order; see Filter.contains_many."""
    import numpy as np

    if out is not None:
        _check_out(out)
    parts: list[Answers] = [np.empty(0, np.bool_)]
    done = 0
    for piece in pieces:
        # For lines of text the number of rows is an upper bound, so they may fit all the same.
        fits = out is not None and done + piece.num_rows <= len(out)
        room = out[done:] if fits and out is not None else np.empty(piece.num_rows, np.bool_)
        count = _answer(opened, piece, room[: piece.num_rows])
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


def answer_hashes(opened: Opened, hashes: memoryview, answers: memoryview) -> None:
    """Write one byte 0 or 1 for each hash to *answers*, reading ahead where the file is cold."""
    opened.check_length()  # a touch of what is gone would kill the process
    if _is_cold(opened, len(hashes) // HASH.size):
        _answer_cold(opened, hashes, answers)
    else:
        opened.attached.contains_hashes(hashes, answers)
    opened.check_length()  # the last page of a file that was cut is filled up with zeros


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


def _answer(opened: Opened, piece: Piece, part: Answers) -> int:
    """Answer the rows of *piece* into *part*; return how many there were."""
    import numpy as np

    answers = part if piece.valid is None else np.empty(len(piece.batch), np.bool_)
    view = answers.view(np.uint8).data
    opened.check_length()  # as answer_hashes(), before and after
    if _is_cold(opened, len(piece.batch)):
        hashes = memoryview(hash_batch(piece.batch, opened.header.seed, opened.header.key_form))
        _answer_cold(opened, hashes, view)
        count = len(hashes) // HASH.size
    else:
        count = opened.attached.contains_batch(piece.batch, view)
    opened.check_length()
    if piece.valid is None:
        return count
    part[:] = False
    part[piece.valid] = answers
    return piece.num_rows


def _is_cold(opened: Opened, num_keys: int) -> bool:
    storage = opened.storage
    return storage.names_pages or (num_keys >= _FEWEST_KEYS and storage.is_cold())


def _answer_cold(opened: Opened, hashes: memoryview, answers: memoryview) -> None:
    view = opened.attached
    step = max(1, _PAGES_AT_ONCE // view.pages_per_key)
    for first in range(0, len(hashes) // HASH.size, step):
        some = hashes[HASH.size * first : HASH.size * (first + step)]
        with opened.storage.loaded(view.pages_of(some)):
            view.contains_hashes(some, answers[first : first + step])

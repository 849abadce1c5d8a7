"""Several filters asked as one: a base and the deltas that bring it up to date.

A stack holds filters of any kinds and adds nothing to them. Its manifest is a small JSON file that
names them relative to its own folder, with the UUID that each must have.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Self

from mmbloom.engine import ObjectBatch, hash_batch, hash_key
from mmbloom.errors import (
    ClosedError,
    FormatError,
    IncompatibleError,
    ParameterError,
    ParameterTypeError,
)
from mmbloom.filters.filter import Filter
from mmbloom.filters.lookup import look_up
from mmbloom.filters.opening import open_any
from mmbloom.format.fields import HASH, KEY_FORMS
from mmbloom.keys.batches import pieces_of
from mmbloom.storage.closing import Closing
from mmbloom.storage.manifest import beside, read_manifest, relative_names, write_manifest
from mmbloom.storage.paths import path_text

if TYPE_CHECKING:
    import numpy as np

    from mmbloom.keys.pieces import Nulls, Piece
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.publish import IfExists

    Answers = np.ndarray[Any, np.dtype[np.bool_]]

MANIFEST_VERSION = 1
_MINUS_HINT = (
    "a filter answers 'maybe' for keys that were never added to it, and each of those would become "
    "a false 'definitely not' here. Give a set of the removed keys, or build the base again"
)
_MINUS_SEED = 0


class FilterStack(Closing):
    """Filters that are asked together: a key is "maybe" if one of them says so.

    Guarantee: a key that was added to a member, and is not in *minus*, is never answered
        "definitely not".
    Sharing: as its members; the stack itself never changes.
    Limits: the false-positive rates of the members add up: expected_fpr() tells. The members must
        have one key form; else they may differ in everything.
    """

    _is_closed = False

    def __init__(
        self,
        members: Iterable[Filter | FilePath],
        *,
        minus: AbstractSet[str | bytes] = frozenset(),
    ) -> None:
        """Stack filters; paths are opened read-only, and closed with the stack.

        Args:
            members: filters or paths of filter files, of any kinds, at least one; open filters stay
                open.
            minus: keys that were removed since: they are answered "definitely not". Only a set of
                keys will do, since its answers are exact; a filter is refused.

        Raises:
            ParameterError, ParameterTypeError: no members, or *minus* is a filter.
            IncompatibleError: the members differ in their key form.
            FormatError, OSError: a path, as mmbloom.open().
        """
        is_one = isinstance(members, str | bytes | os.PathLike | Filter | FilterStack)
        if is_one or not isinstance(members, Iterable):
            hint = "a manifest is opened with FilterStack.open()"
            raise ParameterTypeError("members", "a list of filters or paths", members, hint)
        self._owned: list[Filter] = []
        opened: list[Filter] = []
        try:
            for member in members:
                if not isinstance(member, Filter):
                    member = open_any(member)  # noqa: PLW2901 - from here on it is a filter
                    self._owned.append(member)
                opened.append(member)
            self.members = tuple(opened)
            self._key_form = self._common_key_form()
            self._removed = self._hashes_of(minus)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, path: FilePath, *, minus: AbstractSet[str | bytes] = frozenset()) -> Self:
        """Open the members that a manifest names; see save().

        Args:
            path: the manifest.
            minus: as for FilterStack().

        Raises:
            FormatError: no manifest.
            IncompatibleError: a member was built again since: its UUID is another.
            OSError, ParameterError: as FilterStack().
        """
        entries = _entries_of(read_manifest(path), path_text(path))
        stack = cls((beside(path, entry["path"]) for entry in entries), minus=minus)
        for member, entry in zip(stack.members, entries, strict=True):
            if member.uuid != entry["uuid"]:
                stack.close()
                raise IncompatibleError("uuid", entry["uuid"], f"{member.uuid} in {member.path}")
        return stack

    def save(self, path: FilePath, *, if_exists: IfExists = "raise") -> None:
        """Write a manifest: the members' paths, relative to its folder, and their UUIDs.

        *minus* is not stored: pass it again when you open the stack.

        Raises:
            ParameterError: a member is in memory only. FileExistsError, OSError: as build().
        """
        paths = [member.path for member in self.members if member.path is not None]
        if len(paths) < len(self.members):
            raise ParameterError("members", "filters in files", "one in memory: save() it first")
        names = relative_names(path, paths)
        entries = [
            {"path": name, "uuid": member.uuid}
            for name, member in zip(names, self.members, strict=True)
        ]
        manifest = {"mmbloom_stack": MANIFEST_VERSION, "members": entries}
        write_manifest(path, json.dumps(manifest, indent=1).encode() + b"\n", if_exists)

    # -- keys --------------------------------------------------------------------------------------

    def __contains__(self, key: object) -> bool:
        """Return False if *key* was definitely never added to a member, or is removed."""
        self._check_open()
        return not self._is_removed(key) and any(key in member for member in self.members)

    def which(self, key: object) -> list[Filter]:
        """Return the members that may have *key*, in their order; none of a removed key."""
        self._check_open()
        if self._is_removed(key):
            return []
        return [member for member in self.members if key in member]

    def contains_many(self, keys: object, *, nulls: Nulls = "raise") -> Answers:
        """Look up a batch: False for "definitely not", True for "maybe".

        Args:
            keys: as for BloomFilter.contains_many(). They are read once, in pieces.
            nulls: "raise", or "skip": the answer for an Arrow null is False.

        Returns:
            bool[n], in the order of the keys.

        Raises:
            KeyTypeError, KeyValueError: a bad key.

        Cost: that of all members together; with *minus* also about 0.3 us a key.
        """
        import numpy as np

        self._check_open()
        # All pieces are answered by the same files, whatever is published meanwhile.
        members = [member._now() for member in self.members]
        parts = [np.empty(0, np.bool_)]
        for piece in pieces_of(keys, nulls):
            answers = [look_up(member, iter([piece]), None) for member in members]
            found = np.logical_or.reduce(answers)
            if self._removed:
                found &= ~self._removed_of(piece, len(found))
            parts.append(found)
        return np.concatenate(parts)

    def expected_fpr(self) -> float:
        """Return the chance that a key in none of the members is answered "maybe": 1 - Π(1 - p)."""
        self._check_open()
        return -math.expm1(sum(math.log1p(-min(m.expected_fpr(), 1 - 1e-16)) for m in self.members))

    # -- the handle --------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the members that were given as paths; may be called again."""
        self._is_closed = True
        for member in self._owned:
            member.close()

    def __enter__(self) -> Self:
        """Return the stack; leaving the block closes it."""
        self._check_open()
        return self

    def __repr__(self) -> str:
        """Tell the members."""
        minus = f", minus {len(self._removed)} keys" if self._removed else ""
        return f"<FilterStack of {list(self.members)}{minus}>"

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the stack is closed: make another of the same members")

    # -- removed keys ------------------------------------------------------------------------------

    def _common_key_form(self) -> int:
        if not self.members:
            raise ParameterError("members", "at least one filter", [])
        first = self.members[0].key_form
        for member in self.members:
            if member.key_form != first:
                raise IncompatibleError("key_form", first, member.key_form)
        return KEY_FORMS[first]

    def _hashes_of(self, minus: object) -> frozenset[bytes]:
        """Return the 128-bit hashes of the removed keys: as everywhere, equal hash is equal key."""
        if isinstance(minus, Filter | FilterStack):
            raise ParameterError(
                "minus", "a set of keys, whose answers are exact", minus, _MINUS_HINT
            )
        if not isinstance(minus, AbstractSet):
            raise ParameterTypeError("minus", "a set of keys", minus)
        hashes = hash_batch(ObjectBatch(list(minus)), _MINUS_SEED, self._key_form)
        return frozenset(_split(hashes))

    def _is_removed(self, key: object) -> bool:
        if not self._removed:
            return False
        return HASH.pack(*hash_key(key, _MINUS_SEED, self._key_form)) in self._removed

    def _removed_of(self, piece: Piece, num_rows: int) -> Answers:
        import numpy as np

        hashes = _split(hash_batch(piece.batch, _MINUS_SEED, self._key_form))
        removed = np.fromiter((each in self._removed for each in hashes), np.bool_)
        if piece.valid is None:
            return removed
        rows = np.zeros(num_rows, np.bool_)
        rows[piece.valid] = removed
        return rows


def _split(hashes: bytearray) -> list[bytes]:
    size = HASH.size
    return [bytes(hashes[at : at + size]) for at in range(0, len(hashes), size)]


def _entries_of(data: bytes, path: str) -> list[dict[str, str]]:
    """Return the entries of a manifest; refuse anything else."""

    def refuse(field: str, expected: str, found: object) -> FormatError:
        hint = "It is no manifest of a stack, or one that was changed: write it with save()"
        return FormatError(path, field, 0, expected, found, hint)

    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise refuse("manifest", "JSON", exc) from exc
    version = manifest.get("mmbloom_stack") if isinstance(manifest, dict) else None
    if version != MANIFEST_VERSION:
        raise refuse("mmbloom_stack", f"{MANIFEST_VERSION}", version)
    entries = manifest.get("members")
    names = {"path", "uuid"}
    if not isinstance(entries, list) or not entries:
        raise refuse("members", "a list of one or more", entries)
    for entry in entries:
        is_one = isinstance(entry, dict) and set(entry) == names
        if not is_one or not all(isinstance(value, str) for value in entry.values()):
            raise refuse("members", "objects with a path and a uuid", entry)
    return entries

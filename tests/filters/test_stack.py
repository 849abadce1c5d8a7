"""Stacks: filters of any kinds asked as one, manifests, removed keys."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import mmbloom
from mmbloom import BloomFilter, FilterStack
from mmbloom.errors import (
    ClosedError,
    FormatError,
    IncompatibleError,
    KeyValueError,
    ParameterError,
    ParameterTypeError,
)
from mmbloom.keys.batches import pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mmbloom.keys.pieces import Piece

NEVER = 1e-9
OLD = [f"old {i}" for i in range(300)]
NEW = [f"new {i}" for i in range(100)]
ABSENT = [f"absent {i}" for i in range(1000)]


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Return a large fuse filter and a small Bloom filter of what came later."""
    mmbloom.build(tmp_path / "base.mmb", OLD, kind="fuse", fpr=NEVER).close()
    mmbloom.build(tmp_path / "delta.mmb", NEW, fpr=NEVER).close()
    return [tmp_path / "base.mmb", tmp_path / "delta.mmb"]


def test_a_key_of_any_member_is_maybe(paths: list[Path]) -> None:
    """Members of different kinds, seeds and sizes; one by one and in a batch."""
    with FilterStack(paths) as stack:
        assert all(key in stack for key in OLD[:50] + NEW)
        assert not any(key in stack for key in ABSENT)
        answers = stack.contains_many(OLD + ABSENT + NEW)

    assert answers.tolist() == [True] * 300 + [False] * 1000 + [True] * 100
    assert answers.dtype == np.bool_


def test_which_names_the_members_that_may_have_a_key(paths: list[Path]) -> None:
    """So a hit can be traced to its list."""
    mmbloom.build(paths[0].with_name("both.mmb"), OLD[:1] + NEW[:1], fpr=NEVER).close()
    with FilterStack([*paths, paths[0].with_name("both.mmb")]) as stack:
        base, delta, both = stack.members
        assert stack.which(OLD[0]) == [base, both]
        assert stack.which(OLD[1]) == [base]
        assert stack.which(NEW[0]) == [delta, both]
        assert stack.which("absent") == []


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(lambda keys: keys, id="list"),
        pytest.param(iter, id="iterator"),
        pytest.param(np.array, id="numpy"),
        pytest.param(lambda keys: pytest.importorskip("pyarrow").array(keys), id="arrow"),
    ],
)
def test_a_batch_may_have_any_form(paths: list[Path], batch: Callable[[Any], Any]) -> None:
    """An iterator too, although every member is asked."""
    with FilterStack(paths, minus={OLD[1]}) as stack:
        found = stack.contains_many(batch([OLD[0], "absent", NEW[0], OLD[1]])).tolist()

    assert found == [True, False, True, False]


def test_arrow_nulls_are_skipped_with_removed_keys_too(paths: list[Path]) -> None:
    """The answer for a null is False."""
    column = pytest.importorskip("pyarrow").array([OLD[0], None, OLD[1], NEW[0]])
    with FilterStack(paths, minus={OLD[1]}) as stack:
        assert stack.contains_many(column, nulls="skip").tolist() == [True, False, False, True]


def test_open_filters_may_be_stacked_and_stay_open(paths: list[Path]) -> None:
    """A stack closes what it has opened; filters in memory will do."""
    with (
        mmbloom.open(paths[0]) as base,
        BloomFilter.in_memory(capacity=10, fpr=NEVER) as delta,
    ):
        with FilterStack([base, delta, paths[1]]) as stack:
            owned = stack.members[2]
            delta.add("fresh")
            assert "fresh" in stack
        assert not base.closed
        assert not delta.closed
        assert owned.closed
        with pytest.raises(ClosedError):
            stack.contains_many(["absent"])


def test_the_rate_of_a_stack_is_that_of_all_members(tmp_path: Path) -> None:
    """1 - (1 - p)(1 - q)."""
    mmbloom.build(tmp_path / "a.mmb", OLD, kind="fuse", fpr=0.25).close()
    mmbloom.build(tmp_path / "b.mmb", NEW, kind="fuse", fpr=0.5).close()
    with FilterStack([tmp_path / "a.mmb", tmp_path / "b.mmb"]) as stack:
        assert stack.expected_fpr() == pytest.approx(1 - 0.75 * 0.5)
    with FilterStack([tmp_path / "a.mmb"]) as stack:
        assert stack.expected_fpr() == pytest.approx(0.25)


# ---- manifests -----------------------------------------------------------------------------------


def test_a_manifest_opens_the_members_wherever_the_folder_goes(
    paths: list[Path], tmp_path: Path
) -> None:
    """Paths in it are relative to it."""
    with FilterStack(paths) as stack:
        stack.save(tmp_path / "all.json")
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in [*paths, tmp_path / "all.json"]:
        path.rename(moved / path.name)

    with FilterStack.open(moved / "all.json", minus={OLD[0]}) as stack:
        assert NEW[0] in stack
        assert OLD[0] not in stack
        assert OLD[1] in stack


def test_a_member_that_was_built_again_is_refused(paths: list[Path], tmp_path: Path) -> None:
    """A delta belongs to one base: another one may lack keys."""
    with FilterStack(paths) as stack:
        stack.save(tmp_path / "all.json")
    mmbloom.build(paths[0], OLD[:10], kind="fuse", fpr=NEVER, if_exists="replace").close()

    with pytest.raises(IncompatibleError, match=r"uuid.*base\.mmb"):
        FilterStack.open(tmp_path / "all.json")


def test_a_manifest_is_not_replaced_unasked(paths: list[Path], tmp_path: Path) -> None:
    """Like every file here."""
    with FilterStack(paths) as stack:
        stack.save(tmp_path / "all.json")
        with pytest.raises(FileExistsError):
            stack.save(tmp_path / "all.json")
        stack.save(tmp_path / "all.json", if_exists="replace")


@pytest.mark.parametrize(
    ("data", "field"),
    [
        pytest.param(b"", "manifest", id="empty"),
        pytest.param(b"\x89MMB\r\n\x1a\n", "manifest", id="a-filter"),
        pytest.param(b"[]", "mmbloom_stack", id="no-object"),
        pytest.param(b'{"members": []}', "mmbloom_stack", id="no-version"),
        pytest.param(b'{"mmbloom_stack": 2, "members": []}', "mmbloom_stack", id="newer"),
        pytest.param(b'{"mmbloom_stack": 1}', "members", id="no-members"),
        pytest.param(b'{"mmbloom_stack": 1, "members": []}', "members", id="empty-list"),
        pytest.param(b'{"mmbloom_stack": 1, "members": ["a.mmb"]}', "members", id="path-only"),
        pytest.param(
            b'{"mmbloom_stack": 1, "members": [{"path": 1, "uuid": ""}]}', "members", id="no-path"
        ),
        pytest.param(b" " * ((1 << 20) + 1), "size", id="too-large"),
    ],
)
def test_what_is_no_manifest_is_refused_by_field(tmp_path: Path, data: bytes, field: str) -> None:
    """It is a file like any other: anything may be in it."""
    (tmp_path / "all.json").write_bytes(data)

    with pytest.raises(FormatError) as caught:
        FilterStack.open(tmp_path / "all.json")

    assert caught.value.field == field


def test_a_filter_in_memory_cannot_be_in_a_manifest(paths: list[Path], tmp_path: Path) -> None:
    """It has no path."""
    delta = BloomFilter.in_memory(capacity=10, fpr=NEVER)
    with FilterStack([paths[0], delta]) as stack, pytest.raises(ParameterError, match="save"):
        stack.save(tmp_path / "all.json")


def test_a_manifest_is_plain_json(paths: list[Path], tmp_path: Path) -> None:
    """For other programs, and people."""
    with FilterStack(paths) as stack:
        stack.save(tmp_path / "all.json")
        uuids = [member.uuid for member in stack.members]

    assert json.loads((tmp_path / "all.json").read_text()) == {
        "mmbloom_stack": 1,
        "members": [
            {"path": "base.mmb", "uuid": uuids[0]},
            {"path": "delta.mmb", "uuid": uuids[1]},
        ],
    }


# ---- one answer, one generation ------------------------------------------------------------------


def test_a_batch_of_a_stack_is_answered_by_one_generation_of_each_member(tmp_path: Path) -> None:
    """From its first piece to its last, though another is published between them."""
    old, new, path = (tmp_path / name for name in ("old.mmb", "new.mmb", "list.mmb"))
    mmbloom.build(old, OLD, fpr=NEVER).close()
    mmbloom.build(new, NEW, fpr=NEVER).close()
    mmbloom.publish(path, old)

    class TwoPieces:
        def __key_pieces__(self) -> Iterator[Piece]:
            yield from pieces_of(OLD)
            mmbloom.publish(path, new)
            yield from pieces_of(OLD)

    with mmbloom.open(path, follow=0) as followed, FilterStack([followed]) as stack:
        assert stack.contains_many(TwoPieces()).all()
        assert stack.contains_many(NEW).all()


def test_a_closed_stack_says_so(paths: list[Path]) -> None:
    """Also if some of its members were given open, and stay so."""
    with mmbloom.open(paths[0]) as base:
        stack = FilterStack([base, paths[1]])
        stack.close()
        stack.close()
        uses = (
            lambda: OLD[0] in stack,
            lambda: stack.which(OLD[0]),
            lambda: stack.contains_many([]),
            stack.expected_fpr,
            stack.__enter__,
        )
        for use in uses:
            with pytest.raises(ClosedError, match="stack is closed"):
                use()
        assert OLD[0] in base


# ---- removed keys, and what is refused -----------------------------------------------------------


def test_removed_keys_are_definitely_not_in(paths: list[Path]) -> None:
    """Text and bytes are one key; nothing else goes with them."""
    with FilterStack(paths, minus={OLD[0], NEW[0].encode()}) as stack:
        assert OLD[0] not in stack
        assert OLD[0].encode() not in stack
        assert NEW[0] not in stack
        assert stack.which(OLD[0]) == []
        assert stack.contains_many(OLD + NEW).sum() == 398
        assert "minus 2 keys" in repr(stack)


def test_removed_digests_are_taken_in_either_case(tmp_path: Path) -> None:
    """As the members' key form says."""
    mmbloom.build(tmp_path / "a.mmb", ["00ff", "00fe"], fpr=NEVER, key_form="hex").close()
    with FilterStack([tmp_path / "a.mmb"], minus={"00FF"}) as stack:
        assert stack.contains_many(["00ff", "00FF", "00FE"]).tolist() == [False, False, True]
    with pytest.raises(KeyValueError):
        FilterStack([tmp_path / "a.mmb"], minus={"no digest"})


def test_a_filter_of_removed_keys_is_refused_and_the_error_says_why(paths: list[Path]) -> None:
    """Its false positives would be false negatives here."""
    with (
        mmbloom.open(paths[1]) as removed,
        pytest.raises(ParameterError, match="false 'definitely not'"),
    ):
        FilterStack(paths[:1], minus=removed)  # type: ignore[arg-type]
    with (
        FilterStack(paths) as removed_stack,
        pytest.raises(ParameterError, match="false 'definitely not'"),
    ):
        FilterStack(paths[:1], minus=removed_stack)  # type: ignore[arg-type]
    with pytest.raises(ParameterTypeError, match="a set of keys"):
        FilterStack(paths[:1], minus=["a", "b"])  # type: ignore[arg-type]


def test_a_stack_that_cannot_be_made_leaves_nothing_open(paths: list[Path], tmp_path: Path) -> None:
    """Whatever it had opened is closed again: the error tells of the first thing wrong."""
    mmbloom.build(tmp_path / "hex.mmb", ["00"], fpr=NEVER, key_form="hex").close()

    with pytest.raises(ParameterError, match="at least one"):
        FilterStack([])
    with mmbloom.open(paths[0]) as base:
        for members in (str(paths[0]), base, 3):
            with pytest.raises(ParameterTypeError, match=r"FilterStack\.open"):
                FilterStack(members)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        FilterStack([paths[0], tmp_path / "missing.mmb"])
    with pytest.raises(IncompatibleError, match="key_form"):
        FilterStack([paths[0], tmp_path / "hex.mmb"])


def test_a_stack_of_files_can_be_pickled(paths: list[Path]) -> None:
    """Every process opens the files for itself."""
    with FilterStack(paths, minus={OLD[0]}) as stack:
        again = pickle.loads(pickle.dumps(stack))  # noqa: S301 - made by this test

    assert again.contains_many([OLD[0], OLD[1], NEW[0]]).tolist() == [False, True, True]
    again.close()
    assert all(member.closed for member in again.members)

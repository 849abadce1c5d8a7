"""An offline build: keys, read once and in any order, become one sealed file."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import build_steps
import numpy as np
import pytest
from build_steps import TARGET, keys, sha256_of

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityError,
    KeyTypeError,
    KeyValueError,
    ParameterError,
    SourceError,
)
from mmbloom.engine import hash_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NUM_KEYS = 3000


def build(path: Path, some: object, **parameters: object) -> Path:
    """Build, close, return the path."""
    build_steps.build(path, some, **parameters)
    return path


@pytest.fixture(autouse=True)
def no_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files have the current date, even if the environment gives another."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


def test_a_build_is_a_sealed_file_as_large_as_its_keys_need(tmp_path: Path, layout: str) -> None:
    """It is opened read-only, with exact counts, its true rate, and valid checksums."""
    with mmbloom.build(tmp_path / "a.mmb", iter(keys()), fpr=TARGET, layout=layout) as built:
        assert (built.sealed, built.writable) == (True, False)
        assert built.path == str(tmp_path / "a.mmb")
        assert built.contains_many(keys()).all()
        assert built.keys_added == built.capacity == NUM_KEYS
        assert built.geometry == mmbloom.plan(NUM_KEYS, TARGET, layout)
        assert built.expected_fpr() == pytest.approx(TARGET, rel=0.25)
        assert built.verify() == built.geometry.payload_bytes
        facts = built.info()
    assert (facts["keys_exact"], facts["state"], facts["generation"]) == (True, "sealed", 1)


SOURCES: dict[str, Callable[[list[str]], object]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "generator": lambda some: (key for key in some),
    "bytes": lambda some: [key.encode() for key in some],
    "numpy-U": np.array,
    "numpy-S": lambda some: np.array([key.encode() for key in some]),
    "numpy-object": lambda some: np.array(some, object),
    "numpy-rows": lambda some: np.array(
        [list(key.encode()) for key in some if len(key) == 13], np.uint8
    ),
}


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind != "numpy-rows"])
def test_the_same_keys_in_any_form_give_the_same_file(tmp_path: Path, kind: str) -> None:
    """So do single adds: a set of keys has one set of bits."""
    built = build(tmp_path / "built.mmb", SOURCES[kind](keys()), layout="page")
    with BloomFilter.create(
        tmp_path / "added.mmb", capacity=NUM_KEYS, fpr=TARGET, layout="page"
    ) as added:
        for key in keys():
            added.add(key)
        added.seal()

    assert sha256_of(built, payload_only=True) == sha256_of(
        tmp_path / "added.mmb", payload_only=True
    )


def test_rows_of_bytes_are_keys(tmp_path: Path) -> None:
    """A matrix of shape (n, width)."""
    with mmbloom.open(build(tmp_path / "a.mmb", SOURCES["numpy-rows"](keys()))) as built:
        wide = [key for key in keys() if len(key) == 13]
        assert built.keys_added == len(wide) == 2000
        assert built.contains_many(wide).all()


def test_arrow_data_can_be_built_from(tmp_path: Path) -> None:
    """Chunked, with nulls that are skipped or refused."""
    pa = pytest.importorskip("pyarrow")
    column = pa.chunked_array([keys(1500), [None, *keys(1500, start=1500)]])

    skipped = build(tmp_path / "a.mmb", column, nulls="skip")
    with pytest.raises(KeyValueError, match="null"):
        build(tmp_path / "b.mmb", column)

    assert sha256_of(skipped, payload_only=True) == sha256_of(
        build(tmp_path / "c.mmb", keys()), payload_only=True
    )
    assert not (tmp_path / "b.mmb").exists()


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_list_on_disk_can_be_built_from(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    """A field of each line is the key, decoded by its form; the reader knows how far it is."""
    digests = [hashlib.sha1(key.encode()).hexdigest().upper() for key in keys(500)]  # noqa: S324 - a breach list
    text = "".join(f"{digest}:{i}\r\n" for i, digest in enumerate(digests))
    (tmp_path / "list").write_bytes(compress(text.encode()))

    with mmbloom.read_list(tmp_path / "list", delimiter=":") as source:
        assert source.total_bytes == (tmp_path / "list").stat().st_size
        with mmbloom.build(tmp_path / "a.mmb", source, fpr=TARGET, key_form="hex") as built:
            assert built.keys_added == 500
            assert all(digest.lower() in built for digest in digests)
        assert source.done_bytes == source.total_bytes
        assert source.name == str(tmp_path / "list")
    with mmbloom.open(tmp_path / "a.mmb") as built:
        raw = [bytes.fromhex(digest) for digest in digests]
        same = build(tmp_path / "raw.mmb", raw)
        assert sha256_of(same, payload_only=True) == sha256_of(
            tmp_path / "a.mmb", payload_only=True
        )


def test_a_list_can_be_looked_up_and_added(tmp_path: Path) -> None:
    """What build takes, update and contains_many take too; empty lines are skipped."""
    (tmp_path / "list").write_text("ada\n\ngrace\nalan")
    with BloomFilter.in_memory(capacity=10, fpr=1e-9) as found:
        with mmbloom.read_list(tmp_path / "list") as source:
            assert found.update(source) == 3
        with mmbloom.read_list(tmp_path / "list") as source:
            assert found.contains_many(source).tolist() == [True] * 3
        with mmbloom.read_list(tmp_path / "list") as source:
            out = np.zeros(3, np.bool_)
            assert found.contains_many(source, out=out).tolist() == [True] * 3
        with mmbloom.read_list(tmp_path / "list") as source:
            answers = [answer for lines in source for answer in found.contains_many(lines)]
            assert answers == [True] * 3


def test_order_and_repetition_leave_no_trace(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a byte of the file differs if the environment gives the date."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    shuffled = keys() + keys(1000)
    random.Random(5).shuffle(shuffled)  # noqa: S311 - the same order in every run
    parameters = {"layout": layout, "metadata": {"a": 1, "b": 2}}

    plain = build(tmp_path / "plain.mmb", keys(), **parameters)
    other = build(tmp_path / "other.mmb", shuffled, layout=layout, metadata={"b": 2, "a": 1})
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000001")
    later = build(tmp_path / "later.mmb", keys(), **parameters)

    assert sha256_of(plain) == sha256_of(other)
    assert sha256_of(plain) != sha256_of(later)
    with mmbloom.open(plain) as one, mmbloom.open(later) as two:
        assert one.uuid == two.uuid
        assert one.info()["created"] == "2023-11-14T22:13:20+00:00"


@pytest.mark.parametrize("epoch", ["yesterday", "-1", "1e9", str(2**63)])
def test_an_invalid_date_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: str
) -> None:
    """Before the keys are read: otherwise a build would silently not be reproducible."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)

    with pytest.raises(ParameterError, match="SOURCE_DATE_EPOCH"):
        build(tmp_path / "a.mmb", keys(3))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "other",
    [{"seed": 1}, {"fpr": 0.01}, {"capacity": 5000}, {"metadata": {"a": 1}}, {"layout": "classic"}],
    ids=str,
)
def test_the_uuid_depends_on_keys_and_parameters(tmp_path: Path, other: dict[str, object]) -> None:
    """Other parameters, or one more key, give another UUID."""
    with (
        mmbloom.open(build(tmp_path / "a.mmb", keys(100))) as one,
        mmbloom.open(build(tmp_path / "b.mmb", keys(100), **other)) as two,
        mmbloom.open(build(tmp_path / "c.mmb", keys(101), capacity=5000)) as three,
    ):
        assert len({one.uuid, two.uuid, three.uuid}) == 3


def test_the_key_set_is_the_sum_of_the_hashes(tmp_path: Path) -> None:
    """So files of the same keys can be recognised, whatever their sizes and rates."""
    total = sum((hi << 64) + lo for hi, lo in (hash_key(key, 0, 0) for key in keys(100)))
    with (
        mmbloom.open(build(tmp_path / "a.mmb", keys(100))) as one,
        mmbloom.open(build(tmp_path / "b.mmb", keys(100) * 2, fpr=0.2, capacity=700)) as two,
        mmbloom.open(build(tmp_path / "c.mmb", keys(100, start=1))) as three,
    ):
        assert one.info()["key_set"] == two.info()["key_set"] == f"{total % 2**128:032x}"
        assert one.info()["key_set"] != three.info()["key_set"]
        assert two.keys_added == 100


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 100])
def test_canaries_are_members_spread_over_the_payload(tmp_path: Path, count: int) -> None:
    """Up to eight, in ascending order of their hashes, beginning with the first."""
    with mmbloom.open(build(tmp_path / "a.mmb", keys(count))) as built:
        canaries = built._opened.status.canaries
    hashes = sorted(hash_key(key, 0, 0) for key in keys(count))

    assert len(canaries) == min(count, 8)
    assert canaries[0] == hashes[0]
    assert list(canaries) == sorted(set(canaries))
    assert set(canaries) <= set(hashes)


def test_a_capacity_makes_room_for_more_keys_than_there_are(tmp_path: Path) -> None:
    """For example for a union later; the true rate is far below the target then."""
    with mmbloom.open(build(tmp_path / "a.mmb", keys(100), capacity=10_000)) as built:
        assert (built.capacity, built.keys_added) == (10_000, 100)
        assert built.geometry == mmbloom.plan(10_000, TARGET)
        assert built.expected_fpr() < TARGET / 100


def test_a_capacity_that_the_distinct_keys_exceed_is_refused(tmp_path: Path) -> None:
    """Repetitions do not count; the error has both numbers."""
    build(tmp_path / "fits.mmb", keys(10) * 3, capacity=10)

    with pytest.raises(CapacityError, match="11 distinct keys") as caught:
        build(tmp_path / "a.mmb", keys(11) * 2, capacity=10)

    assert caught.value.capacity == 10
    assert [file.name for file in tmp_path.iterdir()] == ["fits.mmb"]


@pytest.mark.parametrize(
    "nothing",
    [[], (), iter(()), np.array([], "S3"), set()],
    ids=["list", "tuple", "iterator", "array", "set"],
)
def test_an_empty_list_is_an_error(tmp_path: Path, nothing: object) -> None:
    """It is probably a mistake; the error names the call that makes an empty filter."""
    with pytest.raises(SourceError, match=r"empty.*create"):
        build(tmp_path / "a.mmb", nothing)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    """The error is raised before a key is read."""
    path = build(tmp_path / "a.mmb", keys(5))
    before = sha256_of(path)
    unread = iter(keys(5))

    with pytest.raises(FileExistsError, match="replace"):
        build(path, unread)

    assert sha256_of(path) == before
    assert len(list(unread)) == 5


def test_a_file_is_replaced_on_request(tmp_path: Path) -> None:
    """In one step. Without an old file, it is created."""
    path = tmp_path / "a.mmb"
    for count in (5, 6):
        build(path, keys(count), if_exists="replace")
        with mmbloom.open(path) as built:
            assert built.keys_added == count
    assert [file.name for file in tmp_path.iterdir()] == ["a.mmb"]
    with pytest.raises(ParameterError, match="if_exists"):
        build(path, keys(5), if_exists="overwrite")


class Broken(Exception):  # noqa: N818 - it is no error of anybody's
    """An error that an iterator of keys may raise."""


def breaking_source() -> Iterator[str]:
    """Yield a few keys, then fail."""
    yield from keys(10)
    raise Broken


@pytest.mark.parametrize(
    ("source", "error"),
    [
        pytest.param(breaking_source, Broken, id="raises"),
        pytest.param(lambda: [*keys(10), None], KeyTypeError, id="not-a-key"),
        pytest.param(lambda: ["a", "\ud800"], KeyValueError, id="surrogate"),
        pytest.param(lambda: "one text", KeyTypeError, id="one-key"),
        pytest.param(lambda: 5, KeyTypeError, id="number"),
    ],
)
@pytest.mark.parametrize("if_exists", ["raise", "replace"])
def test_a_source_that_fails_midway_leaves_nothing(
    tmp_path: Path, source: Callable[[], object], error: type[Exception], if_exists: str
) -> None:
    """Neither an incomplete file nor a temporary one; an old file stays."""
    path = tmp_path / "a.mmb"
    before = []
    if if_exists == "replace":
        before = [sha256_of(build(path, keys(3)))]

    with pytest.raises(error):
        build(path, source(), if_exists=if_exists)

    assert [sha256_of(file) for file in tmp_path.iterdir()] == before


def test_the_same_list_gives_the_same_file_on_either_engine(tmp_path: Path) -> None:
    """One is built by the plain Python engine in another process."""
    code = (
        "import sys, mmbloom\n"
        "some = [f'p4ssw0rd-{i}' for i in range(300)]\n"
        "mmbloom.build(sys.argv[1], some, fpr=1e-4, layout=sys.argv[2], seed=9).close()"
    )
    for layout in ("classic", "line", "page"):
        other, own = tmp_path / f"{layout}-python.mmb", tmp_path / f"{layout}.mmb"
        subprocess.run(  # noqa: S603 - this Python
            [sys.executable, "-P", "-c", code, str(other), layout],
            env=os.environ | {"MMBLOOM_ENGINE": "python"},
            check=True,
        )
        build(own, keys(300), fpr=1e-4, layout=layout, seed=9)

        assert sha256_of(own, payload_only=True) == sha256_of(other, payload_only=True)
        with mmbloom.open(own) as one, mmbloom.open(other) as two:
            assert one == two
            assert one.uuid == two.uuid

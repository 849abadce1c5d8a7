"""What every kind of filter promises, whatever is in its payload: one contract for all.

A kind adds a row to KINDS and passes; what only it can do is in a file of its own.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from filter_files import facts_of, held_now, in_child, keys

import mmbloom
from mmbloom import (
    BloomFilter,
    ChecksumError,
    ClosedError,
    CountingBloomFilter,
    FormatError,
    FuseFilter,
    IncompatibleError,
    KeyTypeError,
    KeyValueError,
    ReadOnlyError,
    TruncatedError,
    WrongKindError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mmbloom import Filter

FPR = 0.001
PARAMETERS: dict[str, Any] = {"fpr": FPR, "seed": 5, "metadata": {"source": "a test"}}


def make_bloom(layout: str) -> Callable[..., None]:
    """Return a function that builds a Bloom filter."""

    def make(path: Path, some: list[str], **given: Any) -> None:  # noqa: ANN401 - passed on
        mmbloom.build(path, some, layout=layout, **PARAMETERS | given).close()

    return make


def filled(some: list[str], **given: Any) -> CountingBloomFilter:  # noqa: ANN401 - passed on
    """Return a counting filter of these keys, to which others came, and went."""
    made = CountingBloomFilter.in_memory(capacity=len(some) + 9, **PARAMETERS | given)
    passing = [hashlib.md5(b"%d" % i).hexdigest() for i in range(9)]  # noqa: S324 - just digits
    made.update(passing)
    made.update(some)
    made.remove_many(passing)
    return made


def make_counting(path: Path, some: list[str], **given: Any) -> None:  # noqa: ANN401 - passed on
    """Save a counting filter."""
    with filled(some, **given) as made:
        made.save(path)


def make_narrow(path: Path, some: list[str], **given: Any) -> None:  # noqa: ANN401 - passed on
    """Write the bits of a counting filter."""
    with filled(some, **given) as made:
        made.to_bloom(path).close()


def make_fuse(layout: str) -> Callable[..., None]:
    """Return a function that builds a fuse filter."""

    def make(path: Path, some: list[str], **given: Any) -> None:  # noqa: ANN401 - passed on
        mmbloom.build(path, some, kind="fuse", layout=layout, **PARAMETERS | given).close()

    return make


# By layout: how a sealed file of some keys is made, its kind, and its class.
KINDS: dict[str, tuple[Callable[..., None], str, type[Filter]]] = {
    "line": (make_bloom("line"), "bloom", BloomFilter),
    "page": (make_bloom("page"), "bloom", BloomFilter),
    "classic": (make_bloom("classic"), "bloom", BloomFilter),
    "narrow": (make_narrow, "bloom", BloomFilter),
    "counters": (make_counting, "counting", CountingBloomFilter),
    "fuse3": (make_fuse("fuse3"), "fuse", FuseFilter),
    "fuse4": (make_fuse("fuse4"), "fuse", FuseFilter),
}


@pytest.fixture(params=KINDS)
def layout(request: pytest.FixtureRequest) -> str:
    """Run a test once a layout of any kind."""
    return str(request.param)


@pytest.fixture
def path(layout: str, tmp_path: Path) -> Path:
    """Return a sealed file of 500 keys."""
    made = tmp_path / f"{layout}.mmb"
    KINDS[layout][0](made, keys(500))
    return made


def test_the_file_says_which_class_opens_it(path: Path, layout: str) -> None:
    """Nothing else needs to be known of it."""
    _, kind, class_ = KINDS[layout]
    with mmbloom.open(path) as found:
        assert type(found) is class_
        assert (found.kind, found.layout) == (kind, layout)
        assert found.info()["kind"] == kind
    with class_.open(path) as found:
        assert keys(1)[0] in found


def test_the_class_of_another_kind_refuses_it_by_name(path: Path, layout: str) -> None:
    """And leaves nothing open."""
    _, kind, class_ = KINDS[layout]
    before = held_now()
    for other in {row[2] for row in KINDS.values()} - {class_}:
        with pytest.raises(WrongKindError) as caught:
            other.open(path)
        assert (caught.value.expected, caught.value.found) == (other.kind, kind)
        assert str(path) in str(caught.value)
    assert held_now() == before


def test_every_key_is_found_by_every_kind_of_look_up(path: Path) -> None:
    """And of the others few are, and the same ones, whichever way they are asked for."""
    absent = keys(2000, start=500)
    with mmbloom.open(path) as found:
        assert all(key in found for key in keys(500))
        assert all(found.might_contain(key) for key in keys(500))
        assert found.contains_many(keys(500)).all()
        assert found.contains_many(np.array(keys(500))).all()
        answers = found.contains_many(absent)
        assert [key in found for key in absent] == answers.tolist()
        assert answers.sum() <= 2 + 4 * 1.5  # 2000 at 0.001 or less: four sigma above


def test_it_tells_what_it_was_made_with(path: Path) -> None:
    """All of it JSON, and stored in the file."""
    with mmbloom.open(path) as found:
        facts = json.loads(json.dumps(found.info()))
        assert found.sealed
        assert not found.writable
        assert repr(str(path)) in repr(found)
    assert (facts["seed"], facts["fpr"]) == (5, FPR)
    assert facts["metadata"] == {"source": "a test"}
    assert facts["keys_added"] == pytest.approx(500, abs=3)
    assert 0 < facts["expected_fpr"] <= 1.3 * FPR
    assert 0 < facts["fill_ratio"] <= 1
    assert facts["state"] == "sealed"


def test_the_rate_that_it_tells_is_the_one_that_is_measured(layout: str, tmp_path: Path) -> None:
    """100 000 keys that were never added, at 5 %: within four sigma."""
    KINDS[layout][0](tmp_path / "a.mmb", keys(2000), fpr=0.05)
    with mmbloom.open(tmp_path / "a.mmb") as found:
        expected = found.expected_fpr()
        share = found.contains_many(keys(100_000, start=10**6)).mean()

    assert share == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 100_000) ** 0.5)


def test_reading_changes_nothing(path: Path) -> None:
    """Not a byte, not a time stamp; mode 0444 will do."""
    path.chmod(0o444)
    before = facts_of(path)
    with mmbloom.open(path, advice="normal") as found:
        found.contains_many(keys(600))
        found.verify()
        found.info()
    assert facts_of(path) == before


def test_a_writer_refuses_a_sealed_file(path: Path) -> None:
    """It never changes again."""
    with pytest.raises(ReadOnlyError):
        mmbloom.open_writable(path)


def test_hex_digests_are_found_in_either_case(layout: str, tmp_path: Path) -> None:
    """The file knows its key form, and what is no digest is refused."""
    digests = [hashlib.sha1(key.encode()).hexdigest() for key in keys(200)]  # noqa: S324 - as keys
    KINDS[layout][0](tmp_path / "hex.mmb", digests, key_form="hex")
    with mmbloom.open(tmp_path / "hex.mmb") as found:
        assert found.contains_many([digest.upper() for digest in digests]).all()
        assert all(digest.encode() in found for digest in digests)
        with pytest.raises(KeyValueError):
            "zz" in found  # noqa: B015 - it raises


@pytest.mark.parametrize("key", [None, 5, ("a",), 1.5])
def test_what_is_no_key_is_refused(path: Path, key: object) -> None:
    """By itself and in a batch, which it names."""
    with mmbloom.open(path) as found:
        with pytest.raises(KeyTypeError):
            key in found  # noqa: B015 - it raises
        with pytest.raises(KeyTypeError, match="key 1"):
            found.contains_many(["a", key])


def test_every_byte_is_read_by_verify(path: Path) -> None:
    """And any that has changed is found, whatever it stands for."""
    with mmbloom.open(path) as found:
        num_bytes = found.info()["payload_bytes"]
        assert found.verify() == num_bytes
    data = path.read_bytes()
    for offset in range(4096, 4096 + num_bytes, max(1, num_bytes // 20)):
        path.write_bytes(data[:offset] + bytes([data[offset] ^ 0x10]) + data[offset + 1 :])
        with pytest.raises(FormatError):
            mmbloom.open(path).verify()


def test_a_payload_of_zeros_is_refused_on_opening(path: Path) -> None:
    """The canaries are missed: a filter that has lost its keys answers nothing."""
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(len(data) - 4096))

    with pytest.raises(FormatError, match="canaries"):
        mmbloom.open(path)


@pytest.mark.parametrize("length", [0, 100, 4096, -1])
def test_a_file_that_was_cut_is_refused(path: Path, length: int) -> None:
    """TruncatedError, with both lengths."""
    path.write_bytes(path.read_bytes()[:length])

    with pytest.raises(TruncatedError):
        mmbloom.open(path)


def test_a_copy_is_saved_with_the_same_answers(path: Path, tmp_path: Path) -> None:
    """Of the same class, another build; a damaged filter is not copied."""
    absent = keys(2000, start=500)
    with mmbloom.open(path) as found:
        found.save(tmp_path / "copy.mmb")
        with mmbloom.open(tmp_path / "copy.mmb") as copy:
            assert type(copy) is type(found)
            assert copy.uuid != found.uuid
            assert copy.verify() == found.verify()
            assert copy.contains_many(keys(500)).all()
            assert (copy.contains_many(absent) == found.contains_many(absent)).all()
            assert copy.keys_added == found.keys_added
    data = bytearray(path.read_bytes())
    data[5000 % (len(data) - 4200) + 4096] ^= 1
    path.write_bytes(data)
    with pytest.raises((ChecksumError, FormatError)), mmbloom.open(path) as found:
        found.save(tmp_path / "damaged.mmb")
    assert not (tmp_path / "damaged.mmb").exists()


def test_a_pickle_is_the_path_and_the_build(path: Path, layout: str) -> None:
    """Small, whatever the size; another build under that path is refused."""
    with mmbloom.open(path) as found:
        pickled = pickle.dumps(found)
    assert len(pickled) < 500
    with pickle.loads(pickled) as again:  # noqa: S301 - made above
        assert type(again) is KINDS[layout][2]
        assert again.contains_many(keys(500)).all()
    path.unlink()
    KINDS[layout][0](path, keys(500, start=9))
    with pytest.raises(IncompatibleError, match="uuid"):
        pickle.loads(pickled)  # noqa: S301 - as above


def test_a_forked_child_goes_on_reading(path: Path) -> None:
    """With the map of its parent."""
    with mmbloom.open(path) as found:

        def look_up() -> None:
            assert found.contains_many(keys(500)).all()
            assert keys(1)[0] in found

        assert in_child(look_up) == 0
        assert found.contains_many(keys(500)).all()


def test_a_closed_filter_answers_nothing(path: Path) -> None:
    """It never says "definitely not", and closing it twice is nothing."""
    found = mmbloom.open(path)
    found.close()
    found.close()

    assert found.closed
    for ask in (
        lambda: keys(1)[0] in found,
        lambda: found.contains_many(keys(1)),
        found.info,
        found.verify,
        found.expected_fpr,
    ):
        with pytest.raises(ClosedError):
            ask()


MODES = ["map", "ram", "pread"]


@pytest.mark.parametrize("mode", MODES)
def test_every_way_of_reading_gives_the_same_answers(path: Path, mode: Any) -> None:  # noqa: ANN401
    """One by one and in batches, of members and of others; so does what it tells of itself."""
    absent = keys(2000, start=500)
    with mmbloom.open(path) as mapped, mmbloom.open(path, mode=mode) as found:
        assert found.mode == mode
        assert type(found).__name__ == type(mapped).__name__
        assert all(key in found for key in keys(500))
        assert [key in found for key in absent] == [key in mapped for key in absent]
        assert (found.contains_many(absent) == mapped.contains_many(absent)).all()
        assert found.info() == mapped.info()
        assert found.fill_by_region(4) == mapped.fill_by_region(4)
        assert found.verify() == mapped.verify()
        with pickle.loads(pickle.dumps(found)) as again:  # noqa: S301 - made here
            assert again.mode == mode
            assert again.contains_many(keys(500)).all()


def test_the_fuse_table_of_seeds_is_read_for_each_look_up(tmp_path: Path) -> None:
    """It lies in other pages than the fingerprints: a file of 25 pages, read by system calls."""
    path = tmp_path / "a.mmb"
    mmbloom.build(path, keys(60_000), kind="fuse", fpr=0.001).close()
    with mmbloom.open(path, mode="pread") as found, mmbloom.open(path) as mapped:
        assert found.contains_many(keys(60_000)).all()
        assert all(key in found for key in keys(60_000)[::600])
        absent = keys(3000, start=10**6)
        assert (found.contains_many(absent) == mapped.contains_many(absent)).all()


@pytest.mark.parametrize("mode", MODES)
def test_counts_are_read_in_every_way(tmp_path: Path, mode: Any) -> None:  # noqa: ANN401
    """An estimate is an upper bound whatever it was read with, also of keys far apart."""
    path = tmp_path / "a.mmb"
    with CountingBloomFilter.in_memory(capacity=5000, fpr=0.01) as made:
        made.update(keys(5000))
        made.update(keys(50))
        made.save(path)
    with CountingBloomFilter.open(path, mode=mode) as found:
        assert all(found.count_estimate(key) >= 2 for key in keys(50))
        assert all(found.count_estimate(key) >= 1 for key in keys(5000)[50::50])
        assert sum(found.count_estimate(key) for key in keys(500, start=10**6)) < 60


@pytest.mark.parametrize("mode", MODES)
def test_what_is_published_is_what_a_follower_answers_next(
    path: Path,
    layout: str,
    tmp_path: Path,
    mode: Any,  # noqa: ANN401
) -> None:
    """Another build, of another size, is swapped in; nothing of the old one is held."""
    new = tmp_path / "new.mmb"
    KINDS[layout][0](new, keys(2000, start=10_000))
    before = held_now()
    with mmbloom.open(path, mode=mode, follow=0) as found:
        assert all(key in found for key in keys(500))
        assert mmbloom.publish(path, new) == 2
        assert all(key in found for key in keys(2000, start=10_000)[:100])
        assert found.contains_many(keys(2000, start=10_000)).all()
        assert found.contains_many(keys(500)).sum() < 20
        assert (found.generation, found.reload_error) == (2, None)
        assert found.verify() == mmbloom.open(path).verify()
    assert held_now() == before


def test_a_file_of_another_kind_is_no_successor(path: Path, layout: str) -> None:
    """The old one goes on answering, and says why."""
    other = "line" if layout.startswith("fuse") else "fuse3"
    with mmbloom.open(path, follow=0) as found:
        path.unlink()
        KINDS[other][0](path, keys(9, start=10**6))
        with pytest.warns(RuntimeWarning, match="kind"):
            assert keys(1)[0] in found
        assert isinstance(found.reload_error, IncompatibleError)
        assert found.contains_many(keys(500)).all()
        with pytest.raises(IncompatibleError, match="kind"):
            found.reload_if_changed()


def test_a_store_keeps_every_kind(path: Path, layout: str, tmp_path: Path) -> None:
    """Published, opened by name as what it is, rolled back."""
    (tmp_path / "store").mkdir()
    store = mmbloom.Store(tmp_path / "store")
    assert store.publish("name", path) == 1
    new = tmp_path / "new.mmb"
    KINDS[layout][0](new, keys(100, start=10_000))
    assert store.publish("name", new) == 2
    with store["name"] as found:
        assert type(found) is KINDS[layout][2]
        assert found.contains_many(keys(100, start=10_000)).all()
    assert store.roll_back("name") == 1
    with store["name"] as found:
        assert found.contains_many(keys(500)).all()


def test_a_file_is_held_to_the_digest_that_is_expected(path: Path) -> None:
    """Whatever its kind."""
    digest = mmbloom.file_digest(path)
    with mmbloom.open(path, expected_digest=digest) as found:
        assert found.contains_many(keys(500)).all()
    with pytest.raises(ChecksumError):
        mmbloom.open(path, expected_digest=digest[:-64] + 64 * "0")


@pytest.mark.parametrize("mode", ["map", "pread"])
def test_a_file_that_is_cut_while_it_is_open_is_an_error(path: Path, mode: Any) -> None:  # noqa: ANN401
    """Of a batch and of verify(), not a wrong answer and not a signal."""
    with mmbloom.open(path, mode=mode) as found:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - 8)
        with pytest.raises(TruncatedError):
            found.contains_many(keys(500))
        with pytest.raises(TruncatedError):
            found.verify()

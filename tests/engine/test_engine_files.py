"""Two engines, one file: the same life of a filter leaves the same bytes, also of whole filters.

The other tests of this room compare the engines call by call. Here each engine runs the same
program in a process of its own, so that everything above the engine is compared too: canaries,
counts, limits, status slots, pages that are written, checksums.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mmbloom.format.fields import HEADER
from mmbloom.kinds import KINDS

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("mmbloom.engine._kernel", reason="no kernel was compiled here")

LIFE = """
import os, sys
import mmbloom
from mmbloom import BloomFilter, CountingBloomFilter
from mmbloom.errors import AbsentKeyError, CapacityError

kind, layout, folder = sys.argv[1:]
os.chdir(folder)
keys = [f"/srv/pages/{i}.html" for i in range(700)]
step = 0

def keep(filter_):
    global step
    filter_.flush()
    step += 1
    with open("life.mmb", "rb") as file, open(f"{step:02}.bin", "wb") as copy:
        copy.write(file.read())
    print(step, filter_.keys_added, filter_.approx_count(), filter_.expected_fpr())
    print(*answers(filter_))

def answers(filter_):
    return filter_.contains_many(keys).nonzero()[0]

if kind == "fuse":
    options = dict(kind="fuse", layout=layout, fpr=0.01, seed=7)
    with mmbloom.build("life.mmb", keys[:500], **options) as built:
        print(built.keys_added, built.expected_fpr(), *answers(built))
        built.save("other.mmb")
    sys.exit()
cls = {"bloom": BloomFilter, "counting": CountingBloomFilter}[kind]
options = dict(capacity=500, fpr=0.01, layout=layout, seed=7, metadata={"made": "here"})
with cls.create("life.mmb", **options) as filter_:
    keep(filter_)
    print([filter_.add(key) for key in keys[:20] + keys[:3]])
    keep(filter_)
    print(filter_.update(keys[10:300]))
    keep(filter_)
    print(filter_.update(f"{i:030}" for i in range(50)), filter_.num_bits)
    if kind == "counting":
        print(filter_.remove(keys[0]), filter_.count_estimate(keys[5]))
        print(filter_.remove_many(keys[5:200]))
        keep(filter_)
        try:
            filter_.remove_many([keys[299], *keys[600:]])
        except AbsentKeyError as exc:
            print(exc.num_removed)
        keep(filter_)
    with cls.in_memory(**options) as other:
        other.update(keys[250:400])
        print([other.add(key) for key in keys[390:410]])
        filter_ |= other
        keep(filter_)
        print((filter_ | other).keys_added, filter_ == other)
        other.save("other.mmb")
    try:
        filter_.update(keys)
    except CapacityError as exc:
        print(exc.num_added)
    keep(filter_)
    filter_.clear()
    keep(filter_)
    filter_.update(keys[100:250])
with cls.open_writable("life.mmb") as filter_:
    filter_.add("one more")
    keep(filter_)
    filter_.seal()
    keep(filter_)
"""

# What differs between any two builds, with its size: identity, date, and the checksum over both.
MASKED = {"uuid": 16, "created_unix_ns": 8, "header_checksum": 8}


def lives(engine: str, kind: str, layout: str, folder: Path) -> tuple[str, dict[str, bytes]]:
    """Return what the program prints under *engine*, and the files it leaves, masked."""
    folder.mkdir()
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-P", "-c", LIFE, kind, layout, folder],
        env=os.environ | {"MMBLOOM_ENGINE": engine, "SOURCE_DATE_EPOCH": "1700000000"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = [path for path in sorted(folder.iterdir()) if path.suffix in {".mmb", ".bin"}]
    return done.stdout, {path.name: masked(path) for path in files}


def masked(path: Path) -> bytes:
    """Return the bytes of a filter file without those that differ between any two builds."""
    data = bytearray(path.read_bytes())
    for name, size in MASKED.items():
        start = HEADER.offsets[name]
        data[start : start + size] = bytes(size)
    return bytes(data)


@pytest.mark.parametrize(
    ("kind", "layout"), [(kind.name, layout) for kind in KINDS.values() for layout in kind.layouts]
)
def test_a_life_leaves_the_same_files_on_both_engines(
    tmp_path: Path, kind: str, layout: str
) -> None:
    """Created, filled, united, cleared, sealed: every state of the file, and what was printed."""
    found = [lives(engine, kind, layout, tmp_path / engine) for engine in ("kernel", "python")]

    assert found[0] == found[1]
    assert len(found[0][1]) >= (2 if kind == "fuse" else 10)

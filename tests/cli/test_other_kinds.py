"""The commands that read a filter read one of any kind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import mmbloom
from mmbloom import CountingBloomFilter

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

NEVER = 1e-9
KEYS = [f"key {i}" for i in range(2000)]


@pytest.fixture(params=["fuse", "counting"])
def filter_file(request: pytest.FixtureRequest, folder: Path) -> Path:
    """Return a sealed filter of a kind that is not Bloom."""
    path = folder / f"{request.param}.mmb"
    if request.param == "fuse":
        mmbloom.build(path, KEYS, kind="fuse", fpr=NEVER).close()
    else:
        with CountingBloomFilter.in_memory(capacity=2000, fpr=NEVER) as made:
            made.update(KEYS)
            made.save(path)
    return path


def test_keys_are_checked(run: Run, filter_file: Path) -> None:
    """On the command line, and as lines."""
    assert run("check", filter_file, KEYS[0], "absent").out == b"key 0\n"
    assert run("check", filter_file, "-v", stdin=b"key 1\nabsent\n").out == b"absent\n"


def test_a_filter_is_verified(run: Run, filter_file: Path) -> None:
    """Also a damaged one."""
    assert run("verify", filter_file).code == 0
    data = bytearray(filter_file.read_bytes())
    data[4096 + 100] ^= 1
    filter_file.write_bytes(data)
    assert run("verify", filter_file).code == 2


def test_info_tells_the_kind(run: Run, filter_file: Path) -> None:
    """In both forms."""
    out = run("info", filter_file).out.decode()
    result = json.loads(run("info", filter_file, "--json").out)

    assert result["kind"] == filter_file.stem
    assert f"kind      {filter_file.stem}, layout {result['layout']}, " in out
    assert "keys      2,000 " in out


def test_the_thin_ends_of_a_fuse_filter_are_no_holes(run: Run, folder: Path) -> None:
    """Fewer keys have a slot in the first and the last segment of a shard: that is no loss."""
    mmbloom.build(folder / "a.mmb", map(str, range(60_000)), kind="fuse", fpr=0.004).close()

    out = run("info", folder / "a.mmb").out.decode()

    assert "hole" not in out
    assert "1, with fingerprints of 8 bits" in out


# -- build -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["auto", "fuse4"])
def test_build_makes_a_fuse_filter(run: Run, folder: Path, layout: str) -> None:
    """With the same options, and a summary of the same rows."""
    (folder / "list.txt").write_text("".join(f"{key}\n" for key in KEYS * 2))
    options = ("list.txt", "-o", "a.mmb", "--kind", "fuse", "--fpr", "0.001", "--layout", layout)

    done = run("build", *options, "--memory", "64M", "--jobs", "2")

    rows = dict(row.split(None, 1) for row in done.out.decode().splitlines())
    assert list(rows) == ["file", "read", "keys", "layout", "shards", "fpr", "time", "memory"]
    assert rows["keys"] == "2,000 distinct, 2,000 repeated"
    probes = {"auto": "fuse3, 3 probes", "fuse4": "fuse4, 4 probes"}[layout]
    assert rows["layout"].startswith(f"{probes}, ")
    assert rows["shards"] == "1, with fingerprints of 10 bits"
    assert rows["fpr"].endswith("asked for 0.001")
    with mmbloom.open(folder / "a.mmb") as built:
        assert isinstance(built, mmbloom.FuseFilter)
        assert built.contains_many(KEYS).all()
    result = json.loads(run("build", *options, "--force", "--json").out)
    assert (result["kind"], result["keys_added"], result["is_exact"]) == ("fuse", 2000, True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param(["--kind", "fuse", "--capacity", "9"], "--capacity", id="capacity"),
        pytest.param(["--kind", "fuse", "--layout", "page"], "fuse4", id="layout"),
        pytest.param(["--kind", "counting", "--layout", "line"], "counters", id="counting"),
        pytest.param(["--kind", "cuckoo"], "choose from", id="no-kind"),
    ],
)
def test_what_a_fuse_filter_cannot_have_is_refused(
    run: Run, folder: Path, options: list[str], reason: str
) -> None:
    """Before anything is read; no file is left."""
    done = run("build", "-", "-o", "a.mmb", "--fpr", "0.01", *options, stdin=b"ada\n")

    assert done.code == 2
    assert reason in done.err
    assert not (folder / "a.mmb").exists()


# -- audit, add, merge -----------------------------------------------------------------------------


def test_audit_measures_any_kind(run: Run, filter_file: Path) -> None:
    """Random keys are definitely not in, at such a rate."""
    result = json.loads(run("audit", filter_file, "--random", "5000", "--json").out)

    assert (result["looked_up"], result["maybes"], result["passed"]) == (5000, 0, True)


def test_add_and_merge_say_what_to_do_with_a_fuse_filter(run: Run, folder: Path) -> None:
    """And change nothing."""
    path = folder / "fuse.mmb"
    mmbloom.build(path, KEYS, kind="fuse", fpr=NEVER).close()
    before = path.read_bytes()
    for command in (
        ("add", path, "-"),
        ("add", "--dry-run", path, "-"),
        ("merge", path, path, "-o", "all.mmb"),
        ("merge", "--count-only", path),
    ):
        done = run(*command, stdin=b"new\n")

        assert done.code == 2
        assert f"'mmbloom {command[0]}' cannot take a fuse filter" in done.err
        assert "FilterStack" in done.err
    assert path.read_bytes() == before
    assert not (folder / "all.mmb").exists()


def test_plan_tells_the_memory_that_a_build_takes(run: Run) -> None:
    """16 bytes a key, and a shard of up to 4 million keys."""
    result = json.loads(run("plan", "--keys", "1e8", "--fpr", "0.001", "--json").out)

    rows = {row["layout"]: row for row in result["layouts"]}
    assert rows["page"]["build_memory_bytes"] == 1_600_000_000
    assert rows["classic"]["build_memory_bytes"] > 1_600_000_000 + 1e8 * 14 / 8
    assert rows["counters"]["build_memory_bytes"] == 1_600_000_000
    for layout in ("fuse3", "fuse4"):
        assert 50e6 < rows[layout]["build_memory_bytes"] - 1.6e9 < 200e6

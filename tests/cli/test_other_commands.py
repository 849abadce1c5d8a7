"""``mmbloom plan``, ``verify``, ``merge``, ``publish``, ``digest`` and ``demo``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import mmbloom
from mmbloom.format.fields import HEADER_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

# -- plan ------------------------------------------------------------------------------------------


def test_plan_puts_the_layouts_side_by_side(run: Run) -> None:
    """One row a layout of each kind; the star is at what build takes."""
    out = run("plan", "--keys", "1e9", "--fpr", "0.001").out.decode()

    assert out.splitlines()[0] == "keys  1,000,000,000"
    head, *rows = out.splitlines()[3:-2]
    assert head.split("  ")[0] == "layout"
    names = ["classic", "line", "page *", "counters", "fuse3", "fuse4"]
    assert [row[:8].rstrip() for row in rows] == names
    assert len({len(row) for row in rows}) == 1
    assert max(map(len, out.splitlines())) <= 80
    assert out.splitlines()[-1].startswith("later  bloom: add, unite; counting: ")


@pytest.mark.parametrize(
    ("use", "fpr", "layout"),
    [
        pytest.param("static", "0.001", "fuse4", id="static"),
        pytest.param("static", "1e-11", "page", id="static-but-too-rare-for-fuse"),
        pytest.param("cold", "0.001", "page", id="cold"),
        pytest.param("cold", "0.01", "line", id="cold-and-frequent"),
        pytest.param("growing", "0.001", "page", id="growing"),
        pytest.param("shrinking", "0.001", "counters", id="shrinking"),
    ],
)
def test_plan_recommends_for_a_use_and_says_why(run: Run, use: str, fpr: str, layout: str) -> None:
    """The star is there, and a line below the table."""
    options = ("plan", "--keys", "1e6", "--fpr", fpr, "--use", use)
    out = run(*options).out.decode()
    result = json.loads(run(*options, "--json").out)

    assert [row for row in out.splitlines() if " * " in row] == [
        row for row in out.splitlines() if row.startswith(f"{layout} *")
    ]
    assert out.splitlines()[-1].split(None, 2)[:2] == [use, f"{layout}:"]
    assert max(map(len, out.splitlines())) <= 80
    assert (result["use"], result["recommended"]) == (use, layout)
    assert result["why"] in out


def test_plan_counts_in_integers_of_any_size(run: Run) -> None:
    """A3: 1e10 keys at 1e-10 take 59.9e9 bytes, not what is left of them in 32 bits."""
    result = json.loads(run("plan", "--keys", "1e10", "--fpr", "1e-10", "--json").out)

    classic = result["layouts"][0]
    assert classic["file_bytes"] == pytest.approx(59.9e9, rel=0.01)
    assert (result["keys"], result["fpr"], result["auto"]) == (10**10, 1e-10, "page")


def test_plan_tells_the_size_of_the_file_to_the_byte(run: Run, names: Path, folder: Path) -> None:
    """N10: bytes are known before anything is written."""
    result = json.loads(run("plan", "--keys", "5", "--fpr", "0.01", "--json").out)

    counting = mmbloom.CountingBloomFilter
    counting.create(folder / "counters.mmb", capacity=5, fpr=0.01).close()
    for row in result["layouts"]:
        path = folder / f"{row['layout']}.mmb"
        if row["kind"] == "fuse":
            mmbloom.build(
                path, [str(i) for i in range(5)], kind="fuse", fpr=0.01, layout=row["layout"]
            ).close()
        if row["kind"] != "bloom":
            assert path.stat().st_size == row["file_bytes"]
            continue
        run("build", names, "-o", path, "--fpr", "0.01", "--layout", row["layout"])
        assert path.stat().st_size == row["file_bytes"]


# -- verify ----------------------------------------------------------------------------------------


def test_sound_files_are_called_sound(run: Run, names_filter: Path) -> None:
    """One line a file, and 0."""
    outcome = run("verify", names_filter, names_filter)

    assert outcome.code == 0
    assert (
        outcome.out.decode().splitlines()
        == [f"{names_filter}: sound: 64 bytes match their checksums"] * 2
    )


def test_one_flipped_bit_is_found_and_the_other_files_are_read_all_the_same(
    run: Run, names_filter: Path, folder: Path
) -> None:
    """D2: 2 when one file is damaged; the message has its name and where."""
    damaged = folder / "damaged.mmb"
    data = bytearray(names_filter.read_bytes())
    empty_byte = data.index(0, HEADER_BYTES)
    data[empty_byte] ^= 4
    damaged.write_bytes(data)

    outcome = run("verify", damaged, names_filter)

    assert outcome.code == 2
    assert outcome.err.startswith(f"mmbloom verify: error: {damaged}: ")
    assert outcome.out.decode().startswith(f"{names_filter}: sound")


def test_verify_in_json_has_a_verdict_for_each_file(run: Run, names_filter: Path) -> None:
    """And one for all of them."""
    outcome = run("verify", names_filter, "gone.mmb", "--json")

    result = json.loads(outcome.out)
    assert outcome.code == 2
    assert not result["sound"]
    assert [file["sound"] for file in result["files"]] == [True, False]
    assert result["files"][1]["error"] == "gone.mmb: No such file or directory"


def test_quiet_verify_names_damaged_files_only(run: Run, names_filter: Path) -> None:
    """For a nightly job."""
    assert run("verify", names_filter, "-q") == (0, b"", "")
    assert run("verify", "gone.mmb", "-q").err != ""


def test_a_file_without_checksums_is_not_called_more_than_it_is(run: Run, folder: Path) -> None:
    """A writable file has none yet."""
    mmbloom.BloomFilter.create(folder / "growing.mmb", capacity=10, fpr=0.01).close()

    outcome = run("verify", "growing.mmb")

    assert outcome.code == 0
    assert b"has no checksums" in outcome.out


# -- merge -----------------------------------------------------------------------------------------


@pytest.fixture
def week(folder: Path) -> Path:
    """Return a folder with filters of two days, made to be united."""
    for day, keys in {"monday": ["ada", "hedy"], "tuesday": ["grace", "hedy"]}.items():
        mmbloom.build(folder / f"{day}.mmb", keys, fpr=1e-6, capacity=100).close()
    return folder


def test_merge_writes_the_filter_of_the_keys_of_all(run: Run, week: Path) -> None:
    """The same bits as one filter to which all keys were added."""
    mmbloom.build(week / "all.mmb", ["ada", "hedy", "grace"], fpr=1e-6, capacity=100).close()

    outcome = run("merge", "monday.mmb", "tuesday.mmb", "-o", "week.mmb")

    assert outcome.code == 0
    assert "about 3 of 100" in outcome.out.decode()
    with mmbloom.open(week / "week.mmb") as merged, mmbloom.open(week / "all.mmb") as expected:
        assert merged == expected
        assert merged.sealed


def test_merge_may_replace_one_of_its_files(run: Run, week: Path) -> None:
    """With --force: it was read before, and is whole until the union is."""
    outcome = run("merge", "monday.mmb", "tuesday.mmb", "-o", "monday.mmb", "--force", "-q")

    assert outcome == (0, b"", "")
    with mmbloom.open(week / "monday.mmb") as merged:
        assert merged.contains_many(["ada", "hedy", "grace"]).all()


def test_a_union_past_the_capacity_is_written_when_asked(run: Run, folder: Path) -> None:
    """--overfill: its rate is higher, and told."""
    mmbloom.build(folder / "a.mmb", map(str, range(99)), fpr=0.01).close()
    mmbloom.build(folder / "b.mmb", map(str, range(99, 198)), fpr=0.01).close()

    outcome = run("merge", "a.mmb", "b.mmb", "-o", "c.mmb", "--overfill", "--json")

    facts = json.loads(outcome.out)
    assert outcome.code == 0
    assert facts["keys_added"] > facts["capacity"]
    assert facts["expected_fpr"] > 0.01


# -- demo ------------------------------------------------------------------------------------------


def test_the_demo_finds_every_key_and_cleans_up(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """List, build, two checks in other processes, figures; its folder is gone afterwards."""
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)

    outcome = run("demo", "--keys", "1e3")

    out = outcome.out.decode()
    assert outcome.code == 0
    assert "wrote  1,000 lines of HASH:count" in out
    assert "keys in the list:     1,000 maybe, 0 definitely not" in out
    assert "asked for" in out
    assert list(folder.iterdir()) == []


def test_the_demo_runs_this_program_whatever_folder_it_is_in(run: Run, folder: Path) -> None:
    """In a clone, "mmbloom" is a folder without the compiled engine."""
    (folder / "mmbloom").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (folder / "mmbloom" / name).write_text("raise SystemExit('not this one')\n")

    outcome = run("demo", "--keys", "30", "--json")

    assert outcome.code == 0
    assert json.loads(outcome.out)["built"]["engine"] == mmbloom.ENGINE


def test_the_demo_keeps_its_files_when_asked(run: Run, folder: Path) -> None:
    """For a look at them, beside its figures as JSON; the list is what --hibp reads."""
    outcome = run("demo", "--keys", "30", "--keep", "kept", "--json")

    figures = json.loads(outcome.out)
    assert outcome.code == 0
    assert (figures["built"]["keys_added"], figures["present"]["maybe"]) == (30, 30)
    assert figures["measured_fpr"] == figures["absent"]["maybe"] / 30
    kept = folder / "kept"
    assert {path.name for path in kept.iterdir()} == {"breached.txt", "clean.txt", "breached.mmb"}
    assert run("check", kept / "breached.mmb", "--hibp", "-c", "--list", kept / "breached.txt") == (
        0,
        b"30\n",
        "",
    )


# -- publish and digest ----------------------------------------------------------------------------


def test_publish_says_which_generation_it_is(run: Run, names_filter: Path, folder: Path) -> None:
    """The next one each time; the file itself stays."""
    before = names_filter.read_bytes()
    assert run("publish", names_filter, "a.mmb").out == b"a.mmb: generation 1\n"
    result = json.loads(run("publish", names_filter, "a.mmb", "--json").out)

    assert result == {"path": "a.mmb", "generation": 2}
    assert run("publish", names_filter, "a.mmb", "-q").out == b""
    with mmbloom.open(folder / "a.mmb") as found:
        assert ("ada" in found, found.generation) == (True, 3)
    assert names_filter.read_bytes() == before


def test_a_file_that_is_not_sealed_is_not_published_and_what_seals_it_is_named(
    run: Run, folder: Path
) -> None:
    """By the shell, under a path and under a name."""
    mmbloom.BloomFilter.create(folder / "crawl.mmb", capacity=9, fpr=0.01).close()
    (folder / "filters").mkdir()
    for command in (("publish", "crawl.mmb", "a.mmb"), ("store", "publish", "filters", "a")):
        outcome = run(*command, *(["crawl.mmb"] if command[0] == "store" else []))
        assert (outcome.code, outcome.out) == (2, b"")
        assert "'mmbloom merge crawl.mmb -o NEW' writes a sealed copy" in outcome.err

    assert run("merge", "crawl.mmb", "-o", "sealed.mmb").code == 0
    assert run("publish", "sealed.mmb", "a.mmb").code == 0


def test_publish_refuses_a_path_that_is_no_filter(
    run: Run, names_filter: Path, names: Path
) -> None:
    """The list that it was built from, for instance."""
    before = names.read_bytes()
    outcome = run("publish", names_filter, names)

    assert (outcome.code, outcome.out) == (2, b"")
    assert "is ever published over" in outcome.err
    assert names.read_bytes() == before


def test_digest_prints_what_open_compares_with(run: Run, names_filter: Path) -> None:
    """One line a file, as sha256sum does."""
    digest = run("digest", names_filter, names_filter).out.decode().split()[0]
    with mmbloom.open(names_filter, expected_digest=digest) as found:
        assert "ada" in found

    result = json.loads(run("digest", names_filter, "--json").out)
    assert result == {"files": [{"path": str(names_filter), "digest": digest}]}
    assert run("digest", "missing.mmb").code == 2


def test_build_takes_a_random_seed(run: Run, names: Path, folder: Path) -> None:
    """Two builds differ; another word is a mistake in the option."""
    for name in ("a.mmb", "b.mmb"):
        assert run("build", names, "-o", name, "--fpr", "0.01", "--seed", "random").code == 0
    with mmbloom.open(folder / "a.mmb") as a, mmbloom.open(folder / "b.mmb") as b:
        assert a.seed != b.seed
    outcome = run("build", names, "-o", "c.mmb", "--fpr", "0.01", "--seed", "dice")
    assert (outcome.code, "--seed" in outcome.err) == (2, True)

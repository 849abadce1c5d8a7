"""``mmbloom store``: the folder of named filters from the shell."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

import mmbloom

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Outcome, Run


@pytest.fixture
def shop(folder: Path, names_filter: Path) -> Path:
    """Return the working directory, with the folder "filters" and two filters to publish."""
    del names_filter
    (folder / "filters").mkdir()
    mmbloom.build(folder / "other.mmb", ["alan"], kind="fuse", fpr=1e-6).close()
    return folder


def rows(outcome: Outcome) -> list[list[str]]:
    """Return the words of a table."""
    return [line.split() for line in outcome.out.decode().splitlines()]


def test_a_file_that_is_published_is_in_the_list_and_at_the_path(run: Run, shop: Path) -> None:
    """Other commands read it there; the file itself stays."""
    assert run("store", "list", "filters") == (0, b"", "")
    assert run("store", "publish", "filters", "names", "names.mmb").out == b"names: generation 1\n"
    assert run("store", "publish", "filters", "names", "names.mmb", "-q") == (0, b"", "")
    assert run("store", "publish", "filters", "b", "other.mmb").code == 0

    head, *found = rows(run("store", "list", "filters"))
    assert head == ["name", "generation", "kind", "keys", "size", "older"]
    assert [row[:4] for row in found] == [["b", "1", "fuse", "1"], ["names", "2", "bloom", "5"]]
    assert [row[-1] for row in found] == ["none", "1"]
    path = run("store", "path", "filters", "names").out.decode().removesuffix("\n")
    assert path == str(shop / "filters" / "names.mmb")
    assert run("check", path, "ada").code == 0
    assert run("check", path, "alan").code == 1
    assert run("verify", path).code == 0
    assert (shop / "names.mmb").exists()


def test_as_many_generations_stay_as_keep_says(run: Run, shop: Path) -> None:
    """One before the current one, unless asked for more, or none."""
    publish = ("store", "publish", "filters", "a", "names.mmb")
    for _ in range(4):
        run(*publish, "--keep", "2")
    assert mmbloom.Store(shop / "filters").generations("a") == [2, 3, 4]
    run(*publish)
    assert mmbloom.Store(shop / "filters").generations("a") == [4, 5]
    run(*publish, "--keep", "0")
    assert mmbloom.Store(shop / "filters").generations("a") == [6]


def test_rollback_and_remove_say_what_they_did(run: Run, shop: Path) -> None:
    """Until there is nothing to go back to."""
    for new in ("names.mmb", "names.mmb"):
        run("store", "publish", "filters", "a", new)

    assert run("store", "rollback", "filters", "a").out == b"a: generation 1 again\n"
    outcome = run("store", "rollback", "filters", "a")
    assert (outcome.code, outcome.out) == (2, b"")
    assert "no older generation of a filter named 'a'" in outcome.err
    assert run("store", "remove", "filters", "a").out == b"a: removed\n"
    assert os.listdir(shop / "filters") == []


def test_json_has_the_same_and_more(run: Run, shop: Path) -> None:
    """One object a command."""
    folder = str(shop / "filters")

    def result(*words: str) -> object:
        return json.loads(run("store", *words[:1], "filters", *words[1:], "--json").out)

    about = {"folder": folder, "name": "a"}
    assert result("publish", "a", "names.mmb") == {**about, "generation": 1}
    assert result("publish", "a", "names.mmb") == {**about, "generation": 2}
    path = f"{folder}/a.mmb"
    assert result("path", "a") == {**about, "path": path}
    with mmbloom.open(path) as found:
        facts = {
            "name": "a",
            "path": path,
            "generation": 2,
            "older": [1],
            "kind": "bloom",
            "keys_added": 5,
            "file_bytes": os.stat(path).st_size,
            "uuid": found.uuid,
        }
    assert result("list") == {"folder": folder, "filters": [facts]}
    assert result("rollback", "a") == {**about, "generation": 1}
    assert result("remove", "a") == about
    assert result("list") == {"folder": folder, "filters": []}


@pytest.mark.parametrize("name", ["..", "../other", "a/b", "/etc/passwd", "", ".a", "x" * 201])
@pytest.mark.parametrize("action", ["publish", "rollback", "remove", "path"])
def test_a_name_that_leads_elsewhere_is_refused(
    run: Run, shop: Path, action: str, name: str
) -> None:
    """Whatever there is; nothing is made or removed."""
    before = sorted(os.listdir(shop))
    outcome = run("store", action, "filters", name, *(["names.mmb"] if action == "publish" else []))

    assert (outcome.code, outcome.out) == (2, b"")
    assert outcome.err.startswith("mmbloom store: error: name: expected a file name of 1 to 200")
    assert (sorted(os.listdir(shop)), os.listdir(shop / "filters")) == (before, [])


@pytest.mark.parametrize(
    ("action", "says"),
    [("publish", "a symbolic link"), ("rollback", "no filter"), ("path", "no filter")],
)
def test_a_symbolic_link_is_no_filter_of_the_store(
    run: Run, shop: Path, action: str, says: str
) -> None:
    """It stays, and so does what it leads to."""
    (shop / "filters" / "a.mmb").symlink_to(shop / "other.mmb")
    outcome = run("store", action, "filters", "a", *(["names.mmb"] if action == "publish" else []))

    assert (outcome.code, outcome.out) == (2, b"")
    assert says in outcome.err
    assert run("store", "list", "filters") == (0, b"", "")
    assert os.listdir(shop / "filters") == ["a.mmb"]
    assert (shop / "filters" / "a.mmb").is_symlink()


def test_a_damaged_file_does_not_hide_the_others(run: Run, shop: Path) -> None:
    """It is named on standard error, and the exit code tells."""
    run("store", "publish", "filters", "b", "names.mmb")
    (shop / "filters" / "a.mmb").write_bytes((shop / "names.mmb").read_bytes()[:-1])

    outcome = run("store", "list", "filters")
    found = json.loads(run("store", "list", "filters", "--json").out)["filters"]

    assert (outcome.code, [row[0] for row in rows(outcome)]) == (2, ["name", "b"])
    assert outcome.err.startswith(f"mmbloom store: error: {shop / 'filters' / 'a.mmb'}: ")
    assert [row["name"] for row in found if "error" in row] == ["a"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param([], "required: ACTION", id="no-action"),
        pytest.param(["lst", "filters"], "ACTION: invalid choice: 'lst'", id="unknown-action"),
        pytest.param(["remove", "filters"], "'remove' needs NAME", id="no-name"),
        pytest.param(["publish", "filters", "a"], "'publish' needs FILE", id="no-file"),
        pytest.param(["list", "filters", "a"], "'list' takes no NAME", id="a-name-too-much"),
        pytest.param(["path", "filters", "a", "b"], "'path' takes no FILE", id="a-file-too-much"),
        pytest.param(["remove", "filters", "a", "--keep", "1"], "--keep applies only", id="keep"),
        pytest.param(
            ["publish", "filters", "a", "names.mmb", "--keep", "-1"],
            "--keep: expected 0 or more, found -1",
            id="keep-less-than-none",
        ),
        pytest.param(["list", "gone"], "create the folder first", id="no-folder"),
        pytest.param(["list", "names.txt"], "Not a directory", id="a-file-for-a-folder"),
        pytest.param(
            ["remove", "filters", "a"], "filters' prints all names", id="name-that-is-not-there"
        ),
        pytest.param(["publish", "filters", "a", "gone.mmb"], "gone.mmb: No such", id="gone-file"),
        pytest.param(["publish", "filters", "a", "names.txt"], "names.txt: ", id="no-filter"),
    ],
)
def test_what_is_asked_wrongly_is_answered_with_what_is_right(
    run: Run, shop: Path, words: list[str], says: str
) -> None:
    """And nothing is made."""
    (shop / "names.txt").touch()
    outcome = run("store", *words)

    assert (outcome.code, outcome.out) == (2, b"")
    assert says in outcome.err
    assert os.listdir(shop / "filters") == []

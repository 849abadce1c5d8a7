"""A folder of named filters: published, opened, rolled back, removed; never outside of it."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from threading import Thread
from typing import TYPE_CHECKING

import pytest

import mmbloom
from mmbloom import (
    BloomFilter,
    ChecksumError,
    FormatError,
    LockHeldError,
    NotInStoreError,
    ParameterError,
    ParameterTypeError,
    Store,
)
from mmbloom.store.generations import Generations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHARED = [f"shared {i}" for i in range(20)]
STEPS = ("open", "posix_fallocate", "pwrite", "fchmod", "fsync", "link", "replace", "unlink")


@pytest.fixture
def new(tmp_path: Path) -> Callable[[int], Path]:
    """Return a function that builds a file with a key of its own."""

    def make(number: int) -> Path:
        path = tmp_path / f"new-{number}.mmb"
        if not path.exists():
            mmbloom.build(path, [*SHARED, f"only {number}"], fpr=1e-9, seed=number).close()
        return path

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder for the store."""
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def only_in(store: Store, name: str = "breach") -> list[int]:
    """Return which of the numbered keys are in the current generation; all shared ones must be."""
    with store[name] as found:
        assert found.contains_many(SHARED).all()
        assert found.verify() > 0
        return [number for number in range(10) if f"only {number}" in found]


def test_what_was_published_is_opened_by_name(folder: Path, new: Callable[[int], Path]) -> None:
    """Names are listed; the files are ordinary ones."""
    store = Store(folder)
    assert list(store) == []
    assert store.publish("breach", new(1)) == 1
    assert store.publish("urls", new(2)) == 1
    assert store.publish("breach", new(3)) == 2

    assert list(store) == ["breach", "urls"]
    assert ("breach" in store, "other" in store, "../store/breach" in store) == (True, False, False)
    assert (only_in(store), only_in(store, "urls")) == ([3], [2])
    with mmbloom.open(folder / "breach.mmb") as found, mmbloom.open(new(3)) as source:
        assert (found.generation, found.uuid) == (2, source.uuid)


@pytest.mark.parametrize(("keep", "kept"), [(0, [6]), (1, [5, 6]), (3, [3, 4, 5, 6])])
def test_as_many_generations_are_kept_as_was_said(
    folder: Path, new: Callable[[int], Path], keep: int, kept: list[int]
) -> None:
    """Older ones are removed with each publication; nothing else lies about."""
    store = Store(folder, keep=keep)
    for number in range(1, 7):
        assert store.publish("breach", new(number)) == number

    assert store.generations("breach") == kept
    assert sorted(os.listdir(folder)) == [*(f".breach.mmb.{n}" for n in kept), "breach.mmb"]


def test_a_withdrawn_generation_does_not_come_back(
    folder: Path, new: Callable[[int], Path]
) -> None:
    """Its number is not used again; the next publication removes it."""
    store = Store(folder, keep=3)
    for number in (1, 2, 3):
        store.publish("breach", new(number))

    assert store.roll_back("breach") == 2
    assert (only_in(store), store.generations("breach")) == ([2], [1, 2])
    assert store.publish("breach", new(4)) == 4
    assert (only_in(store), store.generations("breach")) == ([4], [1, 2, 4])
    assert store.roll_back("breach") == 2
    assert store.roll_back("breach") == 1
    assert only_in(store) == [1]
    with pytest.raises(NotInStoreError, match="older generation"):
        store.roll_back("breach")
    assert only_in(store) == [1]


def test_followers_of_a_name_see_publications_and_roll_backs(
    folder: Path, new: Callable[[int], Path]
) -> None:
    """A removal is reported, and the filter that was there goes on answering."""
    store = Store(folder, follow=0)
    store.publish("breach", new(1))
    with store["breach"] as found:
        store.publish("breach", new(2))
        assert ("only 1" in found, "only 2" in found) == (False, True)
        store.roll_back("breach")
        assert ("only 1" in found, "only 2" in found) == (True, False)
        store.remove("breach")
        with pytest.warns(RuntimeWarning, match="No such file"):
            assert "only 1" in found


def test_a_removed_name_is_gone_with_all_its_files(
    folder: Path, new: Callable[[int], Path]
) -> None:
    """And can be used again."""
    store = Store(folder, keep=5)
    for number in (1, 2, 3):
        store.publish("breach", new(number))
    store.publish("b", new(4))
    store.remove("breach")

    assert list(store) == ["b"]
    assert sorted(os.listdir(folder)) == [".b.mmb.1", "b.mmb"]
    assert store.publish("breach", new(5)) == 1


@pytest.mark.parametrize(
    "use", [Store.__getitem__, Store.path, Store.generations, Store.roll_back, Store.remove]
)
def test_a_name_that_is_not_there_is_a_key_error(
    folder: Path, use: Callable[[Store, str], object]
) -> None:
    """With the folder and the name, and readable."""
    with pytest.raises(KeyError) as caught:
        use(Store(folder), "breach")

    assert isinstance(caught.value, NotInStoreError)
    assert str(caught.value).startswith(f"{folder}: no filter named 'breach'")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - made here
    assert str(again) == str(caught.value)


@pytest.mark.parametrize(
    "name", ["..", "../new-1", "a/b", "/etc/passwd", "", ".a", "a\0", "x" * 201]
)
@pytest.mark.parametrize(
    "use", [Store.__getitem__, Store.path, Store.generations, Store.roll_back, Store.remove]
)
def test_a_name_leads_nowhere_else(
    folder: Path, use: Callable[[Store, str], object], name: str
) -> None:
    """Whatever there is at the other end."""
    with pytest.raises(ParameterError, match="name"):
        use(Store(folder), name)


def test_nothing_is_published_outside(folder: Path, new: Callable[[int], Path]) -> None:
    """Nor under a name that is none."""
    before = sorted(os.listdir(new(1).parent))
    for name in ("../escaped", "..", ".hidden", "a/b"):
        with pytest.raises(ParameterError, match="name"):
            Store(folder).publish(name, new(1))

    assert sorted(os.listdir(folder.parent)) == before
    assert os.listdir(folder) == []


@pytest.mark.parametrize("mode", ["map", "pread", "ram"])
def test_symbolic_links_in_the_folder_are_refused(
    folder: Path, new: Callable[[int], Path], mode: str
) -> None:
    """A typed error on opening; they are no names in the list."""
    (folder / "breach.mmb").symlink_to(new(1))
    store = Store(folder, mode=mode)  # type: ignore[arg-type]

    with pytest.raises(FormatError, match="symbolic link"):
        store["breach"]
    assert list(store) == []
    with pytest.raises(NotInStoreError):
        store.remove("breach")
    assert new(1).exists()


def test_a_link_that_takes_the_place_of_a_followed_file_is_not_followed(
    folder: Path, new: Callable[[int], Path]
) -> None:
    """The reader goes on with what it has."""
    store = Store(folder)
    store.publish("breach", new(1))
    with store["breach"] as found:
        (folder / "breach.mmb").unlink()
        (folder / "breach.mmb").symlink_to(new(2))
        with pytest.raises(FormatError, match="symbolic link"):
            found.reload_if_changed()
        assert "only 1" in found


def test_nothing_but_a_filter_is_published_over(folder: Path, new: Callable[[int], Path]) -> None:
    """A file of another kind, a folder, a symbolic link: all stay, and nothing is left."""
    (folder / "text.mmb").write_bytes(b"precious")
    (folder / "folder.mmb").mkdir()
    (folder / "link.mmb").symlink_to(new(2))
    before = sorted(os.listdir(folder))

    for name, error in [
        ("text", FormatError),
        ("folder", IsADirectoryError),
        ("link", FormatError),
    ]:
        with pytest.raises(error, match=name):
            Store(folder).publish(name, new(1))

    assert sorted(os.listdir(folder)) == before
    assert (folder / "text.mmb").read_bytes() == b"precious"
    assert (folder / "link.mmb").is_symlink()


@pytest.mark.parametrize("replace", ["publish", "build"])
def test_a_file_put_there_by_other_means_is_kept_whatever_its_number(
    folder: Path, new: Callable[[int], Path], replace: str
) -> None:
    """Also where a generation that was withdrawn has the number that is in its header."""
    store = Store(folder, keep=5)
    for number in (1, 2, 3):
        store.publish("breach", new(number))
    store.roll_back("breach")
    if replace == "publish":
        assert mmbloom.publish(folder / "breach.mmb", new(4)) == 3
    else:
        (folder / "breach.mmb").unlink()
        (folder / "breach.mmb").write_bytes(new(4).read_bytes())

    store.publish("breach", new(5))
    store.roll_back("breach")
    assert only_in(store) == [4]


def test_what_is_no_file_of_a_generation_is_left_alone(
    folder: Path, new: Callable[[int], Path]
) -> None:
    """A folder, a link, a FIFO, whoever put it there."""
    store = Store(folder, keep=5)
    store.publish("breach", new(1))
    foreign = [f".breach.mmb.{number}" for number in (7, 8, 9)]
    (folder / foreign[0]).mkdir()
    (folder / foreign[1]).symlink_to(new(2))
    os.mkfifo(folder / foreign[2])

    assert store.publish("breach", new(3)) == 2
    assert (store.roll_back("breach"), only_in(store)) == (1, [1])
    store.remove("breach")
    assert sorted(os.listdir(folder)) == sorted(foreign)


def test_a_folder_under_the_next_number_does_not_stop_a_publication(
    folder: Path, new: Callable[[int], Path]
) -> None:
    """The next free number is taken."""
    store = Store(folder)
    store.publish("breach", new(1))
    (folder / ".breach.mmb.2").mkdir()

    assert store.publish("breach", new(3)) == 3
    assert only_in(store) == [3]


@pytest.mark.parametrize(
    ("options", "field"), [({"kind": "fuse"}, "kind"), ({"key_form": "hex"}, "key_form")]
)
def test_a_file_that_followers_would_refuse_is_not_published(
    folder: Path, new: Callable[[int], Path], tmp_path: Path, options: dict[str, str], field: str
) -> None:
    """Another kind or key form under the same name; after remove() the name is free."""
    store = Store(folder)
    store.publish("breach", new(1))
    other = tmp_path / "other.mmb"
    mmbloom.build(other, ["00ff"], fpr=0.01, **options).close()  # type: ignore[call-overload]

    with pytest.raises(mmbloom.IncompatibleError) as caught:
        store.publish("breach", other)

    assert caught.value.field == field
    assert only_in(store) == [1]
    store.remove("breach")
    assert store.publish("breach", other) == 1


def test_a_name_can_be_opened_in_another_way(folder: Path, new: Callable[[int], Path]) -> None:
    """The store has the way for all names, a call its own."""
    store = Store(folder, mode="ram")
    store.publish("breach", new(1))

    with store["breach"] as found, store.open("breach", mode="pread", advice="normal") as other:
        assert (found.mode, other.mode) == ("ram", "pread")
    with store.open("breach", follow=0) as follower:
        store.publish("breach", new(2))
        assert follower.contains_many(["x"]).tolist() == [False]
        assert follower.generation == 2
    with pytest.raises(mmbloom.ParameterError):
        store.open("breach", mode="mmap")  # type: ignore[arg-type]


def test_a_copy_of_the_folder_has_the_same_generations(
    folder: Path, new: Callable[[int], Path], tmp_path: Path
) -> None:
    """A backup without hard links: the current file and its numbered twin are two files there."""
    store = Store(folder, keep=5)
    for number in (1, 2, 3):
        store.publish("breach", new(number))
    store.roll_back("breach")
    copied = Store(shutil.copytree(folder, tmp_path / "copy"), keep=5)

    assert copied.generations("breach") == [1, 2]
    assert copied.publish("breach", new(4)) == 4
    assert copied.generations("breach") == [1, 2, 4]
    assert (copied.roll_back("breach"), only_in(copied)) == (2, [2])


def test_generations_are_told_while_others_publish(
    folder: Path, new: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks takes turns with them: nothing goes between listing and looking."""
    store = Store(folder, keep=0)
    store.publish("breach", new(1))
    real, others = Generations.numbers, list[Thread]()

    def meanwhile(files: Generations) -> list[int]:
        found = real(files)
        if not others:
            others.append(Thread(target=store.publish, args=("breach", new(2))))
            others[0].start()
            others[0].join(0.3)
        return found

    monkeypatch.setattr(Generations, "numbers", meanwhile)
    assert store.generations("breach") == [1]
    others[0].join()
    assert store.generations("breach") == [2]


@pytest.mark.parametrize("follow", [-1, float("nan"), "1", True])
def test_how_to_follow_is_checked_at_the_door(folder: Path, follow: object) -> None:
    """Not when the first filter is opened."""
    with pytest.raises(ParameterError, match="follow"):
        Store(folder, follow=follow)  # type: ignore[arg-type]


def test_a_bad_file_is_not_published(folder: Path, new: Callable[[int], Path]) -> None:
    """The current generation stays, and nothing of the other."""
    store = Store(folder)
    store.publish("breach", new(1))
    before = sorted(os.listdir(folder))
    content = bytearray(new(2).read_bytes())
    content[-1] ^= 1
    new(2).write_bytes(content)

    with pytest.raises(ChecksumError):
        store.publish("breach", new(2))
    assert (only_in(store), sorted(os.listdir(folder))) == ([1], before)


@pytest.mark.parametrize("kind", ["text", "link", "dangling", "fifo"])
def test_nothing_is_published_over_what_is_no_filter(
    folder: Path, new: Callable[[int], Path], kind: str
) -> None:
    """A name may be somebody's; what is there stays."""
    path = folder / "breach.mmb"
    if kind == "text":
        path.write_bytes(b"my thesis")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(new(1) if kind == "link" else folder / "nowhere")
    before = os.lstat(path)

    with pytest.raises(FormatError, match="symbolic link" if path.is_symlink() else "filter file"):
        Store(folder).publish("breach", new(2))

    assert os.listdir(folder) == ["breach.mmb"]
    assert os.path.samestat(before, os.lstat(path))


def test_the_path_of_a_name_is_that_of_its_current_generation(
    folder: Path, new: Callable[[int], Path]
) -> None:
    """The same for each; a name that is not there has none."""
    store = Store(folder)
    store.publish("breach", new(1))
    path = store.path("breach")
    store.publish("breach", new(2))

    assert store.path("breach") == path == str(folder / "breach.mmb")
    with mmbloom.open(path) as found:
        assert "only 2" in found


def test_a_damaged_older_generation_is_not_rolled_back_to(
    folder: Path, new: Callable[[int], Path]
) -> None:
    """The current one stays."""
    store = Store(folder)
    store.publish("breach", new(1))
    store.publish("breach", new(2))
    os.truncate(folder / ".breach.mmb.1", 5000)

    with pytest.raises(FormatError):
        store.roll_back("breach")
    assert only_in(store) == [2]


def test_a_file_that_came_by_other_means_is_kept_like_any_other(
    folder: Path, new: Callable[[int], Path]
) -> None:
    """Built straight into the folder, or published over the current one by its path."""
    store = Store(folder)
    mmbloom.publish(folder / "breach.mmb", new(1))
    assert store.generations("breach") == [1]
    assert store.publish("breach", new(2)) == 2
    assert (store.roll_back("breach"), only_in(store)) == (1, [1])

    # Number 2 was withdrawn, so this one is kept as 3, whatever its header says.
    assert mmbloom.publish(folder / "breach.mmb", new(3)) == 2
    assert store.publish("breach", new(4)) == 4
    assert only_in(store) == [4]
    assert (store.roll_back("breach"), only_in(store)) == (3, [3])


KILL = """
import os, signal, sys, mmbloom
folder, new, fatal = sys.argv[1], sys.argv[2], int(sys.argv[3])
left = iter(range(1, 10000))
def dying(real):
    def step(*args, **named):
        if next(left) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **named)
    return step
def act():
    store = mmbloom.Store(folder)
    {act}
for fatal in range(1, 1000):
    pid = os.fork()
    if pid == 0:
        for name in {steps!r}:
            setattr(os, name, dying(getattr(os, name)))
        try:
            act()
        except KeyError:
            os._exit(3)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with mmbloom.Store(folder)["breach"] as found:
        assert found.verify() > 0 and found.contains_many({shared!r}).all()
    if code != -signal.SIGKILL:
        break
print(fatal, code)
"""


@pytest.mark.parametrize("act", ["store.publish('breach', new)", "store.roll_back('breach')"])
def test_killed_at_any_step_the_name_leads_to_a_whole_generation(
    folder: Path, new: Callable[[int], Path], act: str
) -> None:
    """One after the other, without repair in between; then all goes on as if nothing was."""
    store = Store(folder, keep=50)
    for number in (1, 2, 3):
        store.publish("breach", new(number))
    code = KILL.format(act=act, steps=STEPS, shared=SHARED)
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-P", "-c", code, str(folder), str(new(4)), "0"],
        capture_output=True,
        text=True,
        check=True,
    )
    steps, exit_code = map(int, done.stdout.split())
    assert steps > 5
    assert exit_code in {0, 3}  # 3: rolled back to the first

    last = store.publish("breach", new(5))
    assert only_in(store) == [5]
    assert store.generations("breach")[-1] == last
    assert all(name.removeprefix(".").startswith("breach.mmb") for name in os.listdir(folder))
    assert not any(name.endswith(".tmp") for name in os.listdir(folder))


def test_publishers_of_one_name_take_turns(folder: Path, new: Callable[[int], Path]) -> None:
    """No number twice, none lost; the last one is current."""
    path = new(1)
    code = (
        "import sys, mmbloom\nstore = mmbloom.Store(sys.argv[1], keep=100)\n"
        "print(*[store.publish('breach', sys.argv[2]) for _ in range(8)])"
    )
    programs = [
        subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-P", "-c", code, str(folder), str(path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    numbers = [int(word) for program in programs for word in program.communicate()[0].split()]

    assert sorted(numbers) == list(range(1, 25))
    assert Store(folder).generations("breach") == list(range(1, 25))
    assert [program.returncode for program in programs] == [0, 0, 0]


def test_what_a_store_is_made_with_is_checked(folder: Path, tmp_path: Path) -> None:
    """At once, not when a name is opened."""
    with pytest.raises(FileNotFoundError):
        Store(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        Store(tmp_path / "file")
    with pytest.raises(ParameterError, match="keep"):
        Store(folder, keep=-1)
    with pytest.raises(ParameterTypeError, match="keep"):
        Store(folder, keep=1.5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="mode"):
        Store(folder, mode="mmap")  # type: ignore[arg-type]
    assert repr(Store(folder)) == f"<Store {str(folder)!r}>"


def test_a_file_that_somebody_writes_stays_current(
    folder: Path, new: Callable[[int], Path]
) -> None:
    """Nothing is left of the one that could not be published."""
    with BloomFilter.create(folder / "breach.mmb", capacity=9, fpr=0.01) as writer:
        with pytest.raises(LockHeldError):
            Store(folder).publish("breach", new(1))
        writer.add("ada")
    assert sorted(os.listdir(folder)) == [".breach.mmb.1", "breach.mmb", "breach.mmb.lock"]
    assert os.path.samefile(folder / ".breach.mmb.1", folder / "breach.mmb")
    assert Store(folder).publish("breach", new(1)) == 2

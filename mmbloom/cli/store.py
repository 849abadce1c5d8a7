"""``mmbloom store``: a folder of named filters, each with its generations."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mmbloom import MmbloomError, NotInStoreError
from mmbloom.cli import failures, output, streams
from mmbloom.cli.options import UsageError
from mmbloom.cli.progress import progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from mmbloom import Store

    Action = Callable[[Store, argparse.Namespace], int]

DESCRIPTION = """\
Keep filters under names in FOLDER, each with older generations to return to.
FOLDER/NAME.mmb is always a complete file that other commands can read. publish
and rollback replace it in one step, and readers that follow it switch too.

actions:
  list FOLDER               list all names: generation, kind, keys, size, older
                            generations
  publish FOLDER NAME FILE  copy a sealed file into FOLDER as the next
                            generation of NAME
  rollback FOLDER NAME      make the previous generation current again; the next
                            publish deletes the one that was current
  remove FOLDER NAME        delete NAME with all its generations
  path FOLDER NAME          print the path of the current generation
"""
EPILOG = """\
examples:
  mmbloom store publish filters leaked passwords.mmb --keep 3
  mmbloom store list filters
  mmbloom check "$(mmbloom store path filters leaked)" hunter2
"""

ERROR = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("action", metavar="ACTION", choices=_ACTIONS, help="one of those above")
    parser.add_argument("folder", metavar="FOLDER", help="the folder, which must exist")
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="the name: a file name without .mmb, not a path"
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="the sealed filter file to publish; it is copied"
    )
    parser.add_argument(
        "--keep",
        type=int,
        metavar="N",
        help="with publish: number of older generations to keep (default 1)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no summary")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked for."""
    from mmbloom import Store

    act, words = _ACTIONS[arguments.action]
    for name, value in (("NAME", arguments.name), ("FILE", arguments.file)):
        if (value is None) == (name in words):
            verb = "needs" if value is None else "takes no"
            raise UsageError(f"'{arguments.action}' {verb} {name}")
    keep = arguments.keep
    if keep is not None and arguments.action != "publish":
        raise UsageError("--keep applies only to publish, which deletes older generations")
    with _list_is_an_action():
        try:
            store = Store(arguments.folder) if keep is None else Store(arguments.folder, keep=keep)
        except FileNotFoundError as exc:
            exc.strerror = "No such file or directory; create the folder first"
            raise
        return act(store, arguments)


def _list(store: Store, arguments: argparse.Namespace) -> int:
    """Print a row a name; one that cannot be opened does not hide the others."""
    rows, errors = [], 0
    for name in store:
        try:
            rows.append(_facts(store, name))
        except (MmbloomError, OSError) as exc:
            errors += 1
            rows.append({"name": name, "error": failures.text_of(exc)})
            streams.complain(f"mmbloom store: error: {rows[-1]['error']}")
    sound = [row for row in rows if "error" not in row]
    if arguments.json:
        output.print_json({"folder": store.folder, "filters": rows})
    elif sound:
        head = ("name", "generation", "kind", "keys", "size", "older")
        output.print_table(head, [_cells(row) for row in sound])
    return ERROR if errors else 0


def _facts(store: Store, name: str) -> dict[str, Any]:
    with store[name] as found:
        return {
            "name": name,
            "path": found.path,
            "generation": found.generation,
            "older": store.generations(name)[:-1],
            "kind": found.kind,
            "keys_added": found.keys_added,
            "file_bytes": found.info()["file_bytes"],
            "uuid": found.uuid,
        }


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["name"],
        str(row["generation"]),
        row["kind"],
        output.count_text(row["keys_added"]),
        output.size_text(row["file_bytes"]),
        ", ".join(map(str, row["older"])) or "none",
    ]


def _publish(store: Store, arguments: argparse.Namespace) -> int:
    with failures.sealing_is_a_command(arguments.file), progress(quiet=arguments.quiet) as show:
        generation = store.publish(
            arguments.name,
            arguments.file,
            progress=show,
        )
    return _tell(store, arguments, f"generation {generation}", {"generation": generation})


def _roll_back(store: Store, arguments: argparse.Namespace) -> int:
    generation = store.roll_back(arguments.name)
    return _tell(store, arguments, f"generation {generation} again", {"generation": generation})


def _remove(store: Store, arguments: argparse.Namespace) -> int:
    store.remove(arguments.name)
    return _tell(store, arguments, "removed", {})


def _tell(store: Store, arguments: argparse.Namespace, text: str, facts: dict[str, int]) -> int:
    if arguments.json:
        output.print_json({"folder": store.folder, "name": arguments.name, **facts})
    elif not arguments.quiet:
        streams.write(f"{output.printable(arguments.name)}: {text}\n")
    return 0


def _path(store: Store, arguments: argparse.Namespace) -> int:
    import os

    path = store.path(arguments.name)
    if arguments.json:
        output.print_json({"folder": store.folder, "name": arguments.name, "path": path})
    else:
        streams.write(os.fsencode(path) + b"\n")  # as it is: another command takes it
    return 0


@contextmanager
def _list_is_an_action() -> Iterator[None]:
    """Let what is not in the store name the action that lists the names."""
    try:
        yield
    except NotInStoreError as exc:
        hint = f"'mmbloom store list {exc.folder}' prints all names"
        raise failures.CommandError(
            f"{exc.folder}: no {exc.what} named {exc.name!r}: {hint}"
        ) from exc


_ACTIONS: dict[str, tuple[Action, str]] = {
    "list": (_list, ""),
    "publish": (_publish, "NAME FILE"),
    "rollback": (_roll_back, "NAME"),
    "remove": (_remove, "NAME"),
    "path": (_path, "NAME"),
}

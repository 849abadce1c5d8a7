"""Who imports whom: the rooms know only those below them, and importing the package is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mmbloom
from mmbloom.filters.opening import open_any, open_writable

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(mmbloom.__file__).parent
# From the ground up: the modules of a room import from their own room and from those above it here.
ROOMS = [
    "errors",
    "engine",
    "format",
    "keys",
    "sizing",
    "storage",
    "kinds",
    "filters",
    "sources",
    "operations",
    "building",
    "store",
    "mmbloom",
    "cli",
    "__main__",
]
MAY_IMPORT = {room: set(ROOMS[:place]) for place, room in enumerate(ROOMS)}
MAY_IMPORT["__main__"] = {"cli"}
SLOW = (
    "numpy pyarrow rich ctypes lzma bz2 isal backports orjson asyncio logging filelock xxhash "
    "argparse"
)


def modules() -> list[Path]:
    """Return every module of the package that is written in Python."""
    return sorted(PACKAGE.rglob("*.py"))


def room_of(dotted: str) -> str:
    """Return the room of a module: the package itself, or its part below it."""
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def name_of(path: Path) -> str:
    """Return the dotted name of a module."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_for_types(node: ast.AST) -> bool:
    """Return whether a node is the block that only a type checker reads."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def nodes_of(node: ast.AST, *, types_too: bool) -> Iterator[ast.AST]:
    """Yield a node and all below it."""
    yield node
    for child in ast.iter_child_nodes(node):
        if types_too or not is_for_types(child):
            yield from nodes_of(child, types_too=types_too)


def imports_of(path: Path, *, types_too: bool = True) -> set[str]:
    """Return the dotted names of the package's modules that a module imports, anywhere in it.

    Imports for the type checker make one room know another too.
    """
    found = set()
    for node in nodes_of(ast.parse(path.read_text()), types_too=types_too):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            for alias in node.names:
                below = PACKAGE.parent / module.replace(".", "/") / alias.name
                is_module = below.is_dir() or below.with_suffix(".py").exists()
                found.add(f"{module}.{alias.name}" if is_module else module)
    return {name for name in found if name.split(".")[0] == "mmbloom"}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_from_its_room_and_those_below(path: Path) -> None:
    """Data flows one way: keys, hashes, probes, mapped bytes."""
    own = room_of(name_of(path))

    for imported in imports_of(path):
        room = room_of(imported)
        assert room == own or room in MAY_IMPORT[own], f"{name_of(path)} imports {imported}"


def test_every_room_is_in_the_table_and_the_table_has_no_circle() -> None:
    """So there is an order in which they can be understood."""
    assert {room_of(name_of(path)) for path in modules()} == set(MAY_IMPORT)

    below: set[str] = set()
    rest = dict(MAY_IMPORT)
    while rest:
        ready = {room for room, uses in rest.items() if uses <= below}
        assert ready, f"a circle among {sorted(rest)}"
        below |= ready
        rest = {room: uses for room, uses in rest.items() if room not in ready}


def test_the_command_line_uses_the_public_names() -> None:
    """What it can do, everybody can: no other module, and no attribute with an underscore."""
    documented = {"_asdict", "_replace"}  # of named tuples
    for path in modules():
        if room_of(name_of(path)) != "cli":
            continue
        used = imports_of(path, types_too=False)
        assert {room_of(name) for name in used} <= {"cli", "mmbloom"}, path
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "argparse"}
                is_public = node.attr.startswith("__") or node.attr in documented
                assert is_own or is_public, f"{path}:{node.lineno}"


def test_only_files_touches_the_file_system() -> None:
    """No other room opens, removes, renames or maps anything; lists of keys neither."""
    calls = {"open", "unlink", "remove", "rename", "replace", "truncate", "ftruncate", "mkdir"}
    for path in modules():
        if room_of(name_of(path)) in {"storage", "sources", "store", "cli", "__main__"}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                is_os = isinstance(owner, ast.Name) and owner.id in {"os", "io", "shutil", "Path"}
                assert not (is_os and node.func.attr in calls), f"{path}:{node.lineno}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "open", f"{path}:{node.lineno}"
        assert "mmap" not in {
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import)
            for alias in node.names
        }, path


def modules_after(code: str) -> set[str]:
    """Return the top-level modules that a fresh Python has loaded after *code*."""
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-P", "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_importing_the_package_loads_nothing_slow() -> None:
    """Each of these takes longer than all of mmbloom, and is loaded when it is used."""
    ours = modules_after("import mmbloom") - modules_after("")
    wanted = set(SLOW.split())
    if mmbloom.ENGINE == "python":
        wanted -= {"xxhash", "ctypes"}  # that engine hashes with it

    assert "mmbloom" in ours
    assert not ours & wanted


def test_a_look_up_of_one_key_loads_no_numpy(tmp_path: Path) -> None:
    """Opening and asking for one key is for programs that start often."""
    path = str(tmp_path / "a.mmb")
    mmbloom.build(path, ["ada"], fpr=0.01).close()
    code = f"import mmbloom\nwith mmbloom.open({path!r}) as f: assert 'ada' in f"

    assert not modules_after(code) & {"numpy", "pyarrow", "filelock", "logging", "ctypes"}


def test_all_names_of_the_package_are_there() -> None:
    """__all__ is what `from mmbloom import *` gives, and what the documentation may name."""
    assert all(hasattr(mmbloom, name) for name in mmbloom.__all__)
    assert sorted(mmbloom.__all__, key=lambda name: (not name.isupper(), name)) == mmbloom.__all__
    assert mmbloom.open is open_any
    assert mmbloom.open_writable is open_writable

"""How the house is built: kinds are known in one room, names are private to rooms, no cycles."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mmbloom
from mmbloom.format.kinds import KIND_NAMES, LAYOUT_RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(mmbloom.__file__).parent
# Kinds are known in their room, and in the engine, which looks keys up in their payloads.
ROOMS_OF_KINDS = {"kinds", "engine"}
NAMES = {*KIND_NAMES.values(), *LAYOUT_RULES}
ATTRIBUTES = {"kind", "layout", "layout_name", "kind_name"}
CLASSES = {"BloomFilter", "CountingBloomFilter", "FuseFilter", "BloomGeometry", "FuseShape"}
# What the engine's Core has for the class that inherits from it.
HOOKS = {"_use", "_is_due", "_rest", "_latest", "_note", "_remove", "_limit", "_has_removed"}
# Methods of named tuples, which begin with an underscore and are public.
OF_TUPLES = {"_replace", "_asdict", "_fields", "_make"}


def modules() -> list[Path]:
    """Return every module of the package that is written in Python."""
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    """Return the room of a module."""
    return path.relative_to(PACKAGE).parts[0]


def name_of(path: Path) -> str:
    """Return the path of a module within the package."""
    return str(path.relative_to(PACKAGE))


def is_about_kinds(node: ast.AST) -> bool:
    """Return whether an expression names a kind or a layout, or asks an object for its own."""
    if isinstance(node, ast.Constant):
        return node.value in NAMES
    if isinstance(node, ast.Attribute):
        of_numpy = ast.unparse(node.value).endswith("dtype")
        return not of_numpy and (node.attr in ATTRIBUTES or node.attr.startswith("KIND_"))
    if isinstance(node, ast.Name):
        return node.id in ATTRIBUTES or node.id.startswith("KIND_")
    return isinstance(node, ast.Tuple | ast.Set | ast.List) and any(map(is_about_kinds, node.elts))


def is_question(node: ast.Compare) -> bool:
    """Return whether a comparison asks which kind or layout there is."""
    sides = (node.left, *node.comparators)
    if isinstance(node.ops[0], ast.Is | ast.IsNot):
        return False  # whether two objects are of one kind, not which it is
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        return is_about_kinds(node.comparators[0])  # in a table of all: a check of a parameter
    asks_for_auto = any(isinstance(side, ast.Constant) and side.value == "auto" for side in sides)
    return not asks_for_auto and any(map(is_about_kinds, sides))


def questions_about_kinds(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every comparison with a kind or layout, and every test for a class of a kind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and is_question(node):
            yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in {"isinstance", "issubclass"} and any(
                isinstance(part, ast.Name) and part.id in CLASSES for part in ast.walk(node.args[1])
            ):
                yield node
        elif isinstance(node, ast.MatchValue) and is_about_kinds(node.value):
            yield node


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_kinds_ask_which_kind_a_filter_has(path: Path) -> None:
    """Everything else asks the object of the kind what it wants to know."""
    if room_of(path) in ROOMS_OF_KINDS:
        pytest.skip("the room of the kinds, or the engine")
    found = [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in questions_about_kinds(ast.parse(path.read_text()))
        if hasattr(node, "lineno")
    ]

    assert found == []


def test_a_question_about_kinds_is_seen() -> None:
    """The test above can fail."""
    for text in (
        "if header.kind == 2: pass",
        'x = layout != "page"',
        "isinstance(found, BloomFilter | FuseFilter)",
        'if name in ("fuse3", "fuse4"): pass',
        "if kind == KIND_FUSE: pass",
    ):
        assert list(questions_about_kinds(ast.parse(text))), text
    assert not list(questions_about_kinds(ast.parse("mine.kind is not its.kind")))


def names_of_room(room: str) -> set[str]:
    """Return every name with an underscore that a room defines or sets on its objects."""
    found = set()
    for path in modules():
        if room_of(path) == room:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    found.add(node.name)
                elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    found.add(node.attr)
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found.add(node.id)
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_no_room_uses_the_private_names_of_another(path: Path) -> None:
    """A name with an underscore is the business of its own room."""
    own = names_of_room(room_of(path)) | HOOKS
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            name = node.attr
            of_self = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            if not (name.startswith("__") or name in OF_TUPLES or name in own or of_self):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mmbloom"):
            found += [
                f"line {node.lineno}: import {alias.name}"
                for alias in node.names
                if alias.name.startswith("_") and alias.name not in {"_kernel", *own}
            ]

    assert found == []


def imported_at_once(path: Path) -> set[str]:
    """Return the modules that a module imports when it is imported, by their paths."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mmbloom"):
            parts = (node.module or "").split(".")[1:]
            for alias in node.names:
                below = PACKAGE.joinpath(*parts, f"{alias.name}.py")
                module = PACKAGE.joinpath(*parts)
                if below.exists():
                    found.add(name_of(below))
                elif module.with_suffix(".py").exists():
                    found.add(name_of(module.with_suffix(".py")))
                else:
                    found.add(name_of(module / "__init__.py"))
    return found


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """So each can be understood, and imported, after those that it needs."""
    needs = {name_of(path): imported_at_once(path) for path in modules()}
    assert sum(map(len, needs.values())) > 300
    while needs:
        ready = {name for name, others in needs.items() if not others & needs.keys() - {name}}
        assert ready, f"a circle among {sorted(needs)}"
        needs = {name: others for name, others in needs.items() if name not in ready}


def test_a_filter_is_one_short_line_of_classes() -> None:
    """At most six, object included, and all of them in the source."""
    assert len(mmbloom.BloomFilter.__mro__) <= 6
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            is_type = isinstance(node, ast.Call) and ast.unparse(node.func) == "type"
            assert not (is_type and len(node.args) == 3), f"{path}:{node.lineno}"


def test_the_root_of_the_package_holds_folders_and_four_files() -> None:
    """Each room is a folder."""
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}

    assert files == {"__init__.py", "__main__.py", "errors.py", "py.typed"}

"""What pytest collects: every test in the repository, with the settings of the repository."""

from __future__ import annotations

import ast
import os
from pathlib import Path

HERE = Path(__file__).parent


def test_every_test_file_is_collected(collected: list[str]) -> None:
    """No setting leaves a file out, as pytest's own list of folders did with tests/build."""
    named = {test.partition("::")[0] for test in collected}
    there = {
        os.path.join("tests", path.relative_to(HERE).as_posix()) for path in HERE.rglob("test_*.py")
    }

    assert len(there) > 100
    assert there == named


def test_every_test_function_is_collected(collected: list[str]) -> None:
    """A second function of the same name would hide the first without a word."""
    for path in HERE.rglob("test_*.py"):
        functions = [
            node.name
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
        file = os.path.join("tests", path.relative_to(HERE).as_posix())
        found = {
            test.split("::")[1].partition("[")[0] for test in collected if test.startswith(file)
        }
        assert set(functions) <= found, path
        assert len(set(functions)) == len(functions), path

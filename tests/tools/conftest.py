"""Fixtures that import the tools, which are programs beside the package."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return a function that imports a tool by its name, with tools/ on the import path."""
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module


@pytest.fixture
def make_list(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the tool that makes lists."""
    return tool("make.make_list")

"""Hypothesis profiles: ``dev`` for every run, ``ci`` where HYPOTHESIS_PROFILE asks for it.

Both always take the same examples, so that a run that passed passes again.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import mmbloom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

for name, max_examples in {"dev": 10, "ci": 200}.items():
    settings.register_profile(name, max_examples=max_examples, derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# Children begin with the GIL, where Python can be without: then it does not warn on their stderr
# when it comes on, and the plain engine works. The kernel has put it on here.
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    os.environ.setdefault("PYTHON_GIL", "1")


@pytest.fixture(scope="session")
def collected() -> list[str]:
    """Return the names of all tests that README's command runs, as pytest gives them."""
    if mmbloom.ENGINE == "python":
        pytest.skip("the tests of the kernel are not collected where it was not compiled")
    # -P: the installed package, as README's command has it, and not the one beside the tests.
    command = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", "-n", "0"]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)  # noqa: S603
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture
def unsanitized() -> None:
    """Skip a test under the campaign sanitized, where measured memory means nothing."""
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("the address sanitizer takes memory for itself: it cannot be measured here")


@pytest.fixture(scope="session")
def beside_a_thread() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return a context in which a second thread lives: the kernel then lets go of the GIL."""

    @contextlib.contextmanager
    def waiting_thread() -> Iterator[None]:
        is_over = threading.Event()
        thread = threading.Thread(target=is_over.wait)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    return waiting_thread

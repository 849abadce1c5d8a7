"""Python without the GIL: it comes back on when mmbloom is imported, or mmbloom is not imported.

What threads do to one filter is in tests/filters/test_life_threads.py, and is the same everywhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

import pytest

import mmbloom

IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
TELL = "import sys, mmbloom; print(getattr(sys, '_is_gil_enabled', lambda: True)())"


def run(code: str, engine: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run *code* in a fresh Python that decides on the GIL by itself."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    return subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-P", "-W", "ignore", "-c", code],
        env=inherited | {"MMBLOOM_ENGINE": engine} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(mmbloom.ENGINE == "python", reason="only the kernel can put the GIL on")
def test_importing_the_kernel_puts_the_gil_on() -> None:
    """It does not declare that it can do without, so a free-threaded Python goes back to it."""
    assert run(TELL, "kernel").stdout == "True\n"


def test_a_python_without_the_gil_is_refused() -> None:
    """Before anything is answered, with the way out."""
    code = f"import sys; sys._is_gil_enabled = lambda: False\n{TELL}"
    done = run(code, mmbloom.ENGINE)

    assert done.returncode == 1
    assert "ImportError: mmbloom needs the GIL" in done.stderr
    assert "-X gil=1" in done.stderr


@pytest.mark.skipif(not IS_FREE_THREADED, reason="this Python always has the GIL")
@pytest.mark.parametrize("engine", dict.fromkeys([mmbloom.ENGINE, "python"]))
@pytest.mark.parametrize(("gil", "is_refused"), [("0", True), ("1", False)], ids=["off", "on"])
def test_the_gil_can_be_asked_for_and_not_be_switched_off(
    engine: str, gil: str, *, is_refused: bool
) -> None:
    """What the message says is true: with PYTHON_GIL=1 either engine works."""
    done = run(TELL, engine, PYTHON_GIL=gil)

    assert ("ImportError: mmbloom needs the GIL" in done.stderr) == is_refused
    assert done.stdout == ("" if is_refused else "True\n")

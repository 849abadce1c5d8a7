"""The C kernel under the address and undefined-behaviour sanitizers, without Python in between.

The tests themselves are C: check.h and the test files beside it, one for each part of the kernel.
Here they are compiled together with the kernel, warnings being errors, and run one by one. Twice:
as the kernel is shipped, and without what only some processors and compilers have: AVX2, POPCNT,
128-bit integers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNEL = HERE.parents[2] / "mmbloom" / "engine" / "kernel"
# Not optimised: it compiles in a third of the time, and no access is optimised away.
OPTIONS = [
    "-std=c11",
    "-O0",
    "-g",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Werror",
    "-ffp-contract=off",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
]
VARIANTS = {"as-shipped": [], "portable": ["-DMMB_PORTABLE", "-U__SIZEOF_INT128__"]}
# A key of 2^60 bytes: malloc() is to fail, not to end the program. Nothing is preloaded: these have
# their own sanitizers, and under the campaign sanitized the compiler would have its leaks told.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1", "LD_PRELOAD": ""}

NAMES = [
    name
    for path in sorted(HERE.glob("test_*.c"))
    for name in re.findall(r"^    TEST\((\w+)\),$", path.read_text(), re.MULTILINE)
]


def _compiler() -> str:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler here: nothing to sanitize")
    if not KERNEL.is_dir():
        pytest.skip("the kernel's sources are not here: an installed wheel has none")
    return compiler


def _xxhash() -> list[str]:
    """Return where xxhash.h lies; its own warnings are not ours."""
    if Path("/usr/include/xxhash.h").exists():
        return []
    pyarrow = pytest.importorskip("pyarrow", reason="xxhash.h: neither the system's nor pyarrow's")
    return ["-isystem", f"{pyarrow.get_include()}/arrow/vendored/xxhash"]


def _run(command: list[str]) -> None:
    done = subprocess.run(  # noqa: S603 - the compiler, and what it made
        command, check=False, capture_output=True, text=True, env=ENVIRONMENT, timeout=120
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="session", params=VARIANTS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the kernel and its tests."""
    folder = tmp_path_factory.mktemp("kernel")
    compiler = _compiler()
    includes = [f"-I{KERNEL}", f"-I{HERE}", *_xxhash()]

    def compile_one(source: Path) -> str:
        target = str(folder / source.with_suffix(".o").name)
        variant = VARIANTS[request.param] if source.parent == KERNEL else []
        _run([compiler, *OPTIONS, *variant, *includes, "-c", str(source), "-o", target])
        return target

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, [*KERNEL.glob("*.c"), *HERE.glob("*.c")]))
    target = folder / "test_kernel"
    _run([compiler, *OPTIONS, *objects, "-o", str(target)])
    return target


@pytest.mark.parametrize("name", NAMES)
def test_c(program: Path, name: str) -> None:
    """Each name is a sentence about the kernel, and a function in a file beside this one."""
    _run([str(program), name])


def test_the_program_knows_the_same_tests_as_this_file(program: Path) -> None:
    """A test that is not in a table is not run."""
    done = subprocess.run(  # noqa: S603 - what was compiled here
        [program], check=True, capture_output=True, text=True, env=ENVIRONMENT
    )
    listed = done.stdout.split()

    assert sorted(listed) == sorted(NAMES)
    functions = re.findall(
        r"^static void (\w+)\(void\)$",
        "".join(path.read_text() for path in HERE.glob("test_*.c")),
        re.MULTILINE,
    )
    assert sorted(functions) == sorted(NAMES)

"""Run the tests, or a tool, on an extension that is watched by the sanitizers.

    python tools/sanitized.py                                  # the whole suite
    python tools/sanitized.py tests/filters -k fuse            # what pytest is told
    python tools/sanitized.py --tool fuzz_files.py -- --seconds 60
    python tools/sanitized.py --leaks --tool open_many.py -- --times 300

Package, tests and tools are copied into a temporary folder, and the extension is built there with
the address and undefined-behaviour sanitizers: the tree keeps the one it has. Every process that is
started from there is watched. Python takes its memory from malloc(), so that what is read beside an
object is seen too. What a sanitizer says is a finding even where the test that met it has passed.

With --leaks, what nothing points to when a process ends is a finding too if it was taken while the
extension was at work; what other libraries lose is theirs. Needs GCC, CMake and the build
requirements of pyproject.toml. Exit code 1: a test failed, or a sanitizer found something.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from bench.card import machine_card

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("mmbloom", "tests", "tools", "README.md", "pyproject.toml")
LIBRARIES = ("libasan.so", "libubsan.so")
# A SIGBUS is what some tests wait for. Memory that malloc() refuses is Python's MemoryError.
ASAN = "allocator_may_return_null=1:handle_sigbus=0"
# Stacks are followed through Python, which keeps no frame pointers; or else no leak names a caller.
LEAKS = "detect_leaks=1:fast_unwind_on_malloc=0:malloc_context_size=30:exitcode=0"
EXTENSION = "_kernel.cpython"
MAX_SHOWN = 5


class Outcome(NamedTuple):
    """What a run gave."""

    exit_code: int
    seconds: float
    tests: dict[str, int]
    skipped: dict[str, int]
    findings: list[str]


def build(tree: Path) -> None:
    """Copy what a run needs into a folder, and build the sanitized extension there."""
    for name in COPIED:
        source, target = ROOT / name, tree / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("*.so", "__pycache__", ".hypothesis")
            shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)
    made = tree / "build"
    # Debug: quicker to compile, and the assertions of Python's headers hold too.
    words = ["-DMMB_SANITIZE=ON", "-DMMB_WERROR=ON", "-DCMAKE_BUILD_TYPE=Debug"]
    words += [f"-DPython_EXECUTABLE={sys.executable}"]
    words += ["-GNinja"] if shutil.which("ninja") else []
    for command in (
        ["cmake", "-S", str(tree / "mmbloom" / "engine" / "kernel"), "-B", str(made), *words],
        ["cmake", "--build", str(made)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            sys.exit(f"{shlex.join(command)}\n{done.stdout[-4000:]}{done.stderr}")
    for extension in made.glob("_kernel*.so"):
        shutil.copy(extension, tree / "mmbloom" / "engine")


def watched(tree: Path, reports: Path, *, leaks: bool) -> dict[str, str]:
    """Return the environment in which every process loads the sanitizers first."""
    compiler = os.environ.get("CC", "gcc")
    paths = [
        subprocess.run(  # noqa: S603 - the compiler
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in LIBRARIES
    ]
    return os.environ | {
        "LD_PRELOAD": " ".join(str(Path(path).resolve()) for path in paths),
        "ASAN_OPTIONS": f"{ASAN}:{LEAKS if leaks else 'detect_leaks=0'}:log_path={reports}/asan",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={reports}/ubsan",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(tree),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def counts(results: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many tests passed, failed, were skipped; and the reasons of those."""
    tests = dict.fromkeys(("run", "passed", "failed", "skipped"), 0)
    reasons: dict[str, int] = {}
    if not results.exists():
        return {}, {}
    for case in ET.parse(results).iter("testcase"):  # noqa: S314 - pytest has just written it
        tests["run"] += 1
        skipped = case.find("skipped")
        if skipped is not None:
            tests["skipped"] += 1
            reason = skipped.get("message", "")
            reasons[reason] = reasons.get(reason, 0) + 1
        elif case.find("failure") is not None or case.find("error") is not None:
            tests["failed"] += 1
        else:
            tests["passed"] += 1
    return tests, reasons


def findings(reports: Path) -> list[str]:
    """Return what the sanitizers said; of leaks, those with the extension in their stack."""
    found = []
    for path in sorted(reports.iterdir()):
        text = path.read_text(encoding="utf-8", errors="replace")
        if "LeakSanitizer" not in text:
            found.append(text)
            continue
        blocks = re.split(r"\n\n+", text)
        found += [block for block in blocks if " leak of " in block and EXTENSION in block]
    return found


def run(command: list[str], tree: Path, *, leaks: bool) -> Outcome:
    """Run a command under the sanitizers; its output is passed on."""
    with tempfile.TemporaryDirectory(dir=tree, prefix="reports-") as name:
        results = Path(name) / "tests.xml"
        reports = Path(name) / "reports"
        reports.mkdir()
        if "pytest" in command:
            command = [*command, f"--junitxml={results}"]
        start = time.monotonic()
        done = subprocess.run(  # noqa: S603 - pytest, or a tool of this folder
            command, cwd=tree, env=watched(tree, reports, leaks=leaks), check=False
        )
        seconds = round(time.monotonic() - start, 1)
        return Outcome(done.returncode, seconds, *counts(results), findings(reports))


def report(outcome: Outcome, what: str) -> dict[str, Any]:
    """Print what was run and found; return it with what a reader needs to judge it."""
    for text in outcome.findings[:MAX_SHOWN]:
        print(text, file=sys.stderr)
    for reason, number in sorted(outcome.skipped.items()):
        print(f"skipped {number}: {reason}")
    tests = ", ".join(f"{number} {name}" for name, number in outcome.tests.items())
    tests = tests or f"exit code {outcome.exit_code}"
    print(f"sanitized: {what}: {tests}; {len(outcome.findings)} findings; {outcome.seconds} s")
    return {"ran": what, **outcome._asdict()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="All other words are for pytest or the tool; after -- whatever they are.",
    )
    parser.add_argument("--tool", help="run this file of tools/ in place of the tests")
    parser.add_argument("--leaks", action="store_true", help="look for leaks at the end too")
    parser.add_argument("--tree", type=Path, help="keep the built tree here; default: temporary")
    parser.add_argument("--json", type=Path, help="where the figures go")
    options, words = parser.parse_known_args()
    options.words = [word for word in words if word != "--"]
    return options


def main() -> int:
    """Build, run, tell; 1 when a test failed or a sanitizer found something."""
    options = _options()
    card = machine_card()
    what = shlex.join([options.tool or "pytest", *options.words])
    with tempfile.TemporaryDirectory(prefix="sanitized-") as temporary:
        tree = (options.tree or Path(temporary)).absolute()
        build(tree)
        # One process: a forked child waits for ever for the lock of the sanitizer's allocator if
        # another thread held it, as the thread of a worker may. Rare here; kill such a child.
        start = [f"tools/{options.tool}"] if options.tool else ["-m", "pytest", "-q", "-n0"]
        command = [sys.executable, *start, *options.words]
        outcome = run(command, tree, leaks=options.leaks)
    told = report(outcome, what)
    if options.json is not None:
        asked = f"python tools/sanitized.py {shlex.join(sys.argv[1:])}"
        content = {"what": "sanitized", "command": asked, "machine": card, **told}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return int(bool(outcome.exit_code or outcome.findings))


if __name__ == "__main__":
    sys.exit(main())

"""Run the tests, or another campaign, with an extension built with sanitizers.

    python tools/campaigns sanitized                                  # the whole suite
    python tools/campaigns sanitized tests/filters -k fuse            # arguments for pytest
    python tools/campaigns sanitized --campaign fuzz-files -- --seconds 60
    python tools/campaigns sanitized --leaks --campaign open-many -- --times 300

Package, tests and tools are copied into a temporary folder. The extension is built there with the
address and undefined-behaviour sanitizers; the source tree keeps its own. All child processes load
the sanitizers too. Python allocates with malloc(), so that an access beside an object is noticed.
Every report of a sanitizer is a finding, even if the test that caused it passed.

With --leaks, memory that was allocated in the extension and is unreachable when a process ends is a
finding too; leaks of other libraries do not count. Needs GCC, CMake and the build requirements of
pyproject.toml. Exits with 1 if a test failed or a sanitizer reported something.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from evidence import record
from evidence.card import machine_card

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("mmbloom", "tests", "tools", "README.md", "pyproject.toml")
LIBRARIES = ("libasan.so", "libubsan.so")
# Some tests cause a SIGBUS on purpose. When malloc() fails, Python raises MemoryError.
ASAN = "allocator_may_return_null=1:handle_sigbus=0"
# Slow unwinding: Python has no frame pointers, so fast unwinding would not find the caller.
LEAKS = "detect_leaks=1:fast_unwind_on_malloc=0:malloc_context_size=30:exitcode=0"
EXTENSION = "_kernel.cpython"
MAX_SHOWN = 5


class Outcome(NamedTuple):
    """The result of a run."""

    exit_code: int
    seconds: float
    tests: dict[str, int]
    skipped: dict[str, int]
    findings: list[str]


def build(tree: Path) -> None:
    """Copy the project into a folder, and build the extension with sanitizers there."""
    for name in COPIED:
        source, target = ROOT / name, tree / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("*.so", "__pycache__", ".hypothesis")
            shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)
    made = tree / "build"
    # Debug: quicker to compile, and the assertions in Python's headers are checked.
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
    """Return an environment in which every process loads the sanitizers first."""
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
    """Return how many tests passed, failed and were skipped; and how often each skip reason."""
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
    """Return the reports; of leaks, only those with the extension in their stack."""
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
    """Run a command with the sanitizers; its output is passed through."""
    with tempfile.TemporaryDirectory(dir=tree, prefix="reports-") as name:
        results = Path(name) / "tests.xml"
        reports = Path(name) / "reports"
        reports.mkdir()
        if "pytest" in command:
            command = [*command, f"--junitxml={results}"]
        start = time.monotonic()
        done = subprocess.run(  # noqa: S603 - pytest, or a campaign
            command, cwd=tree, env=watched(tree, reports, leaks=leaks), check=False
        )
        seconds = round(time.monotonic() - start, 1)
        return Outcome(done.returncode, seconds, *counts(results), findings(reports))


def show(outcome: Outcome, what: str) -> None:
    """Print what was run and what was found."""
    for text in outcome.findings[:MAX_SHOWN]:
        print(text, file=sys.stderr)
    for reason, number in sorted(outcome.skipped.items()):
        print(f"skipped {number}: {reason}")
    tests = ", ".join(f"{number} {name}" for name, number in outcome.tests.items())
    tests = tests or f"exit code {outcome.exit_code}"
    print(f"sanitized: {what}: {tests}; {len(outcome.findings)} findings; {outcome.seconds} s")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="All other arguments, and all after --, go to pytest or to the campaign.",
    )
    parser.add_argument("--campaign", help="run this campaign instead of the tests")
    parser.add_argument(
        "--leaks", action="store_true", help="also look for leaks when a process ends"
    )
    parser.add_argument(
        "--tree", type=Path, help="build here and keep it; default: a temporary folder"
    )
    record.add_options(parser, "sanitized")
    options, words = parser.parse_known_args()
    options.words = [word for word in words if word != "--"]
    return options


def main() -> int:
    """Build, run, report; return 1 if a test failed or a sanitizer reported something."""
    options = _options()
    card = machine_card()
    what = shlex.join([options.campaign or "pytest", *options.words])
    with tempfile.TemporaryDirectory(prefix="sanitized-") as temporary:
        tree = (options.tree or Path(temporary)).absolute()
        build(tree)
        # -n0: a child forked while another thread holds the lock of the sanitizer's allocator
        # hangs; xdist's workers have such a thread. If it happens without them, kill the child.
        pytest, campaign = ["-m", "pytest", "-q", "-n0"], ["tools/campaigns", options.campaign]
        start = campaign if options.campaign else pytest
        command = [sys.executable, *start, *options.words]
        outcome = run(command, tree, leaks=options.leaks)
    show(outcome, what)
    command = "python tools/campaigns sanitized"
    record.write(options.json, record.text_of(command, sys.argv[1:], card, outcome._asdict()))
    return int(bool(outcome.exit_code or outcome.findings))


if __name__ == "__main__":
    sys.exit(main())

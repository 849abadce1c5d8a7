"""Run the kernel on other machines: big-endian, 32 bits.

    python tools/campaigns other-machines s390x i386   # or: native, this machine

For each machine, the kernel must compile without a warning and pass all C tests of
tests/engine/kernel. A reader around it (golden_reader.c) then opens every file of tests/golden,
written by a little-endian 64-bit machine; it must accept them and give the answers of answers.json.
Debian's packages: gcc-s390x-linux-gnu, libc6-dev-s390x-cross and qemu-user-static; gcc-12-multilib.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
KERNEL, KERNEL_TESTS, GOLDEN = (
    ROOT / name for name in ("mmbloom/engine/kernel", "tests/engine/kernel", "tests/golden")
)
READER = Path(__file__).with_name("golden_reader.c")
OPTIONS = "-std=c11 -Wall -Wextra -Wconversion -Wshadow -Werror -ffp-contract=off".split()  # noqa: SIM905 - a command line
MISSING = 3  # exit code: no compiler or no emulator here


class Machine(NamedTuple):
    """How to compile for a machine and run its programs."""

    compiler: tuple[str, ...]
    emulator: tuple[str, ...]
    what: str


MACHINES = {
    "native": Machine((os.environ.get("CC", "cc"),), (), "this machine"),
    # Static: an emulated program would load the shared libraries of this machine.
    "s390x": Machine(("s390x-linux-gnu-gcc", "-static"), ("qemu-s390x-static",), "big-endian"),
    "i386": Machine(("gcc", "-m32", "-idirafter", "/usr/include/x86_64-linux-gnu"), (), "32 bits"),
}


def run(command: list[str], text: str = "") -> str:
    """Return what a program prints; exit if it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} ... gave {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def can_run(machine: Machine, folder: Path) -> bool:
    """Return whether an empty program can be compiled and run."""
    if not all(shutil.which(tool[0]) for tool in (machine.compiler, machine.emulator) if tool):
        return False
    source, target = folder / "nothing.c", folder / "nothing"
    source.write_text('#include <stdio.h>\nint main(void) { return puts("") < 0; }\n')
    for command in ([*machine.compiler, source, "-o", target], [*machine.emulator, target]):
        if subprocess.run(command, capture_output=True, check=False).returncode:  # noqa: S603
            return False
    return True


def compile_for(machine: Machine, sources: list[Path], target: Path) -> list[str]:
    """Compile sources together with the kernel; return the command that runs them."""
    includes = [f"-I{KERNEL}", f"-I{KERNEL_TESTS}"]
    if not Path("/usr/include/xxhash.h").exists():
        import pyarrow as pa

        includes += ["-isystem", f"{pa.get_include()}/arrow/vendored/xxhash"]
    files = [str(path) for path in (*KERNEL.glob("*.c"), *sources)]
    run([*machine.compiler, *OPTIONS, *includes, *files, "-o", str(target)])
    return [*machine.emulator, str(target)]


def key(kind: str, number: int, key_form: str) -> str:
    """Return a key of the golden files, as tools/make/make_golden.py made it."""
    text = f"{kind} {number}"
    if key_form == "raw":
        return text
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def check_golden(reader: list[str], name: str, expected: dict[str, Any]) -> int:
    """Compare the answers for one golden file; return how many keys were looked up."""
    key_form = expected["info"]["key_form"]
    members = [key("member", i, key_form) for i in range(expected["members"])]
    absent = [key("absent", i, key_form) for i in range(expected["absent"])]
    answers = run([*reader, str(GOLDEN / name)], "\n".join([*members, *absent]) + "\n").split()
    maybe = [i for i, answer in enumerate(answers[len(members) :]) if answer == "1"]
    lost = answers[: len(members)].count("0")
    if lost or len(answers) != len(members) + len(absent) or maybe != expected["absent_but_maybe"]:
        sys.exit(f"{name}: {lost} members lost, other answers: {maybe}")
    return len(answers)


def check_damage(reader: list[str], folder: Path) -> None:
    """Exit unless a file with one changed bit is refused."""
    content = bytearray((GOLDEN / "line-raw.mmb").read_bytes())
    content[4100] ^= 1
    damaged = folder / "damaged.mmb"
    damaged.write_bytes(content)
    done = subprocess.run([*reader, damaged], input=b"", capture_output=True, check=False)  # noqa: S603
    if done.stdout != b"refused: payload\n":
        sys.exit(f"a damaged file: {done.stdout!r}")


def run_c_tests(machine: Machine, folder: Path) -> int:
    """Run all tests of the kernel; return how many there are."""
    tests = compile_for(machine, sorted(KERNEL_TESTS.glob("*.c")), folder / "tests")
    names = run(tests).split()
    for name in names:
        run([*tests, name])
    return len(names)


def check(name: str, *, quick: bool) -> int:
    """Run all checks for one machine; return the exit code."""
    machine = MACHINES[name]
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        if not can_run(machine, folder):
            print(f"{name}: no compiler or no emulator found")
            return MISSING
        num_tests = 0 if quick else run_c_tests(machine, folder)
        reader = compile_for(machine, [READER], folder / "reader")
        answers = json.loads((GOLDEN / "answers.json").read_text())
        num_keys = sum(check_golden(reader, file, each) for file, each in answers.items())
        check_damage(reader, folder)
    print(
        f"{name} ({machine.what}): {num_tests} C tests; "
        f"{len(answers)} golden files, {num_keys} answers right"
    )
    return 0


def main() -> int:
    """Check the machines of the command line; return the highest exit code."""
    parser = argparse.ArgumentParser(description="Run the kernel for other machines.")
    parser.add_argument("machines", nargs="+", choices=MACHINES)
    parser.add_argument("--quick", action="store_true", help="the golden files only")
    given = parser.parse_args()
    return max(check(name, quick=given.quick) for name in given.machines)


if __name__ == "__main__":
    sys.exit(main())

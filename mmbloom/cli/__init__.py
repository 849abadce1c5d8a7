"""The command ``mmbloom``: one short file a subcommand, each over the public interface only.

Exit codes are those of grep: 0 found (or done), 1 nothing found, 2 error.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from mmbloom.cli import build, check, demo, info, merge, plan, verify

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = (build, check, info, verify, plan, merge, demo)

FOUND, NONE_FOUND, ERROR = 0, 1, 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it

EPILOG = """\
examples:
  mmbloom build passwords.txt -o passwords.mmb --fpr 0.001
  mmbloom check passwords.mmb hunter2
  mmbloom info passwords.mmb

'mmbloom COMMAND --help' has the options of a command, and an example.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    import mmbloom  # noqa: PLC0415 - the package imports this one only as an entry point

    top = argparse.ArgumentParser(
        prog="mmbloom",
        description="Membership filters that live in a file: 'definitely not' or 'maybe', never a false 'no'.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"mmbloom {mmbloom.__version__} ({mmbloom.ENGINE} engine)"
    top.add_argument("--version", action="version", version=version)
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.DESCRIPTION,
            epilog=command.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from mmbloom.errors import MmbloomError  # noqa: PLC0415 - as above

    arguments = parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough. Python would flush again at exit and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except (MmbloomError, MemoryError) as exc:
        sys.stderr.write(f"mmbloom: error: {exc}\n")
        return ERROR
    except OSError as exc:
        where = f"{exc.filename!r}: " if exc.filename else ""
        sys.stderr.write(f"mmbloom: error: {where}{exc.strerror or exc}\n")
        return ERROR
    except KeyboardInterrupt:
        sys.stderr.write("mmbloom: interrupted; nothing was left behind\n")
        return INTERRUPTED
    return code

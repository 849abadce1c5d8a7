"""The command ``mmbloom``: one short file a subcommand, which is loaded when it is asked for.

Exit codes are those of grep: 0 found (or done), 1 nothing found, 2 error.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import mmbloom
from mmbloom import MmbloomError, ParameterError
from mmbloom.cli import failures, streams
from mmbloom.cli.options import Parser, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# The help lines are here so that the module of one command is imported, and not those of all.
COMMANDS = {
    "build": "build a filter file from lists of keys",
    "create": "make an empty filter file, to add keys to",
    "add": "add keys to a filter file that is not sealed, after a forecast",
    "remove": "remove keys from a counting filter",
    "seal": "finish a filter file: add its checksums, and never change it again",
    "export": "write a counting filter as a read-only Bloom filter, a quarter of its size",
    "check": "print the keys that may be in a filter",
    "info": "show what a filter file is, and how full",
    "verify": "read filter files whole and compare them with their checksums",
    "plan": "compare kinds and layouts before building: size, cost of a look-up",
    "merge": "unite filter files with equal parameters",
    "audit": "measure the false-positive rate with keys that are no members",
    "publish": "make a finished file the next generation under a path",
    "store": "keep named filters and their generations in a folder",
    "digest": "print the SHA-256 of filter files, to pin them",
    "demo": "build and check a generated list, and say what happened",
    "help": "print a page of the manual; without a topic, list the pages",
}

ERROR = 2
INTERRUPTED, BROKEN_PIPE = 130, 141  # 128 + SIGINT and SIGPIPE, as shells have it

DESCRIPTION = """\
Membership filters in files: whether a key is 'definitely not' in a list, or
'maybe'. A key of the list is never answered 'definitely not'.

commands:
""" + "".join(f"  {name:<8} {help_line}\n" for name, help_line in COMMANDS.items())
EPILOG = """\
examples:
  mmbloom build passwords.txt -o passwords.mmb --fpr 0.001
  mmbloom check passwords.mmb hunter2
  mmbloom info passwords.mmb

exit codes: 0 found (or done), 1 nothing found, 2 error.
'mmbloom COMMAND --help' has the options of a command, and an example.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; *argv* is None in a process of its own."""
    streams.fill_closed()
    prog = "mmbloom"
    try:
        try:
            if argv is None:
                _catch_interrupts()
            words = sys.argv[1:] if argv is None else argv
            name = _parser().parse_args(words[:1]).command
            prog = f"mmbloom {name}"
            code = _run(prog, name, words[1:])
        except SystemExit as exc:  # argparse has printed help or a mistake
            code = int(exc.code or 0)
        streams.flush()
    except BrokenPipeError:  # the reader has seen enough
        code = BROKEN_PIPE
    except KeyboardInterrupt:
        streams.complain(f"{prog}: interrupted")
        code = INTERRUPTED
    except (MmbloomError, OSError, MemoryError) as exc:
        streams.complain(f"{prog}: error: {failures.text_of(exc)}")
        code = ERROR
    streams.finish()
    if code == INTERRUPTED and argv is None:
        _die_of_interrupt()
    return code


def _catch_interrupts() -> None:
    """From here on raise KeyboardInterrupt on Ctrl-C, which ended the process until now."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _die_of_interrupt() -> None:
    """End by the signal: a shell leaves its loop only if the command was ended so."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _parser() -> Parser:
    """Return the parser of everything before the options of the command."""
    parser = Parser("mmbloom", DESCRIPTION, EPILOG)
    parser.usage = "mmbloom COMMAND ...\n       mmbloom COMMAND --help"
    version = f"mmbloom {mmbloom.__version__} ({mmbloom.ENGINE} engine)"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


def _run(prog: str, name: str, argv: Sequence[str]) -> int:
    command = import_module(f"mmbloom.cli.{name}")
    parser = Parser(prog, command.DESCRIPTION, command.EPILOG)
    command.add_arguments(parser)
    arguments = parser.parse(argv)
    try:
        code: int = command.run(arguments)
    except UsageError as exc:
        parser.error(str(exc))
    except ParameterError as exc:
        option = parser.option_of(exc.name)
        raise ParameterError(option, exc.rule, exc.found, exc.hint) from exc
    return code

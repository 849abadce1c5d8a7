"""``mmbloom build``: lists of keys -> a sealed filter file."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from mmbloom.cli import output
from mmbloom.cli.failures import CommandError, force_is_an_option, hibp_is_an_option
from mmbloom.cli.options import (
    UsageError,
    add_list_options,
    check_output,
    count,
    open_list,
    rate,
    resolve_hibp,
    seed,
    suggest_hibp,
)
from mmbloom.cli.progress import progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from mmbloom.build.memory import BuildReport, Progress
    from mmbloom.build.sources import KeyList
    from mmbloom.files.publish import IfExists
    from mmbloom.keys.pieces import Batch

DESCRIPTION = """\
Build a filter file from lists of keys: text, one key a line, LF or CR LF; empty
lines are no keys. gzip, xz, zstd and bzip2 lists are read as they are,
recognised by content. Repeated keys count once, and the file is as large as the
distinct keys need. It appears complete or not at all, and is never overwritten
unasked. Memory: 32 bytes a key while building, beside the filter itself.
"""
EPILOG = """\
examples:
  mmbloom build passwords.txt.xz -o passwords.mmb --fpr 0.001
  mmbloom build pwned-sha1.txt -o pwned.mmb --fpr 0.001 --hibp    # HASH:count
  zcat urls-*.gz | mmbloom build - -o urls.mmb --fpr 1e-6 --meta source=crawl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "lists", nargs="+", metavar="LIST", help="a list of keys; - is standard input"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the filter file to write"
    )
    parser.add_argument(
        "--fpr", required=True, type=rate, metavar="P", help="false-positive rate, such as 0.001"
    )
    parser.add_argument(
        "--capacity",
        type=count,
        metavar="N",
        help="make room for N distinct keys (default: as many as there are)",
    )
    parser.add_argument(
        "--layout",
        default="auto",
        metavar="NAME",
        help="classic, line, page or auto (the default; 'mmbloom plan' compares them)",
    )
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of the hash (default 0), or random: see README, 'Threat model'",
    )
    parser.add_argument(
        "--key-form",
        metavar="FORM",
        help="raw (the default), or hex: digests in hexadecimal, upper or lower case",
    )
    add_list_options(parser)
    parser.add_argument(
        "--meta",
        dest="metadata",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="store a fact in the file; VALUE is JSON, or else text (repeatable)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace FILE if it exists; readers keep the old one"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no summary")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Build the file and say what happened."""
    from mmbloom import CapacityError
    from mmbloom.build.memory import Parameters, build_from_batches

    _resolve(arguments)
    parameters = Parameters(
        arguments.fpr,
        arguments.capacity,
        arguments.layout,
        arguments.seed,
        arguments.key_form or "raw",
        _metadata(arguments.metadata) or None,
    )
    with ExitStack() as stack:
        stack.enter_context(force_is_an_option(arguments))
        stack.enter_context(hibp_is_an_option(arguments))
        lists = [stack.enter_context(open_list(path, arguments)) for path in arguments.lists]
        _refuse_own_list(arguments)
        show = _by_bytes_read(lists, stack.enter_context(progress(quiet=arguments.quiet)))
        if_exists: IfExists = "replace" if arguments.force else "raise"
        try:
            report = build_from_batches(
                arguments.output, _batches(lists, arguments), parameters, if_exists, show
            )
        except CapacityError as exc:
            message = f"{exc.where}, and --capacity is {exc.capacity}: raise it, or leave it out"
            raise CommandError(message) from exc
    _print_summary(arguments, report)
    return 0


def _resolve(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together, and set what --hibp stands for."""
    check_output(arguments.output)
    if arguments.lists.count("-") > 1:
        raise UsageError("standard input can be read once: give - once")
    resolve_hibp(arguments)
    if arguments.hibp:
        if arguments.key_form is not None:
            raise UsageError("--hibp has --key-form in it: leave that out")
        arguments.key_form = "hex"


def _refuse_own_list(arguments: argparse.Namespace) -> None:
    """Refuse to replace a list by the filter of its keys: a slip that loses the list."""
    try:
        target = os.stat(arguments.output)
    except OSError:
        return
    for path in arguments.lists:
        if os.path.samestat(os.fstat(0) if path == "-" else os.stat(path), target):
            raise CommandError(
                f"{arguments.output}: one of the lists, which the filter would replace: choose "
                "another --output"
            )


def _by_bytes_read(lists: list[KeyList], report: Any) -> Any:  # noqa: ANN401 - functions of progress
    """Return a report for the builder, with a guess at the total from the share of bytes read."""
    total_bytes = sum(source.total_bytes for source in lists)
    is_known = all(source.total_bytes for source in lists)

    def show(state: Progress) -> None:
        done_bytes = sum(source.done_bytes for source in lists)
        total = state.total
        if state.phase == "hash" and is_known and done_bytes:
            total = max(state.done, round(state.done * total_bytes / done_bytes))
        report(state.phase, state.done, total)

    return show


def _batches(lists: list[KeyList], arguments: argparse.Namespace) -> Iterator[Batch]:
    """Yield the keys of all lists; refuse a list without any: a wrong or an empty file."""
    for source in lists:
        is_empty = True
        for number, lines in enumerate(source):
            if number == 0:
                _refuse_quoted(source.name, lines.data, arguments)
                if arguments.key_form != "hex":  # that refuses such a key, with this hint
                    suggest_hibp("mmbloom build", source.name, lines.data, arguments)
            is_empty = is_empty and not lines.data.strip(b"\r\n")
            yield lines.batch
        if is_empty:
            raise CommandError(f"{source.name}: no keys: it is empty, or has empty lines only")


def _refuse_quoted(name: str, data: bytes, arguments: argparse.Namespace) -> None:
    """Refuse a list of fields whose first key begins with a quote: nobody would ask for that."""
    if arguments.delimiter is None:
        return
    before = len(data) - len(data.lstrip(b"\r\n"))
    first_line = data[before:].partition(b"\n")[0]
    column = (arguments.field or 1) - 1
    fields = first_line.split(os.fsencode(arguments.delimiter), column + 1)
    if fields[column : column + 1] and fields[column].startswith(b'"'):
        number = 1 + data.count(b"\n", 0, before)
        raise CommandError(
            f"{name}, line {number}: the key begins with a double quote, which would be part of "
            "it: fields are split at each delimiter, and quotes have no meaning. Read CSV with "
            "quotes in Python, with its csv module or pyarrow.csv"
        )


def _print_summary(arguments: argparse.Namespace, report: BuildReport) -> None:
    from mmbloom import BloomFilter

    with BloomFilter.open(arguments.output) as built:
        facts = built.info()
    count = output.count_text
    seconds = sum(report.seconds.values())
    if arguments.json:
        rounded = {phase: round(spent, 6) for phase, spent in report.seconds.items()}
        output.print_json(facts | {"keys_read": report.keys_read, "seconds": rounded})
    elif not arguments.quiet:
        repeated = count(report.keys_read - report.keys_added)
        layout = f"{facts['layout']}, {count(facts['num_probes'], 'probe')}"
        phases = ", ".join(f"{phase} {spent:.2f}" for phase, spent in report.seconds.items())
        speed = count(report.keys_read / seconds)
        output.print_rows(
            [
                ("file", f"{arguments.output}, {output.size_text(facts['file_bytes'])}"),
                ("keys", f"{count(report.keys_added)} distinct, {repeated} repeated"),
                ("layout", f"{layout}, {facts['bits_per_key']:.2f} bits a key"),
                ("fpr", f"{output.rate_text(facts['expected_fpr'])}; asked for {facts['fpr']:g}"),
                ("time", f"{seconds:.2f} s ({phases}), {speed} keys/s"),
            ]
        )


def _metadata(pairs: list[str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--meta: expected NAME=VALUE, found {pair!r}")
        if name in metadata:
            raise UsageError(f"--meta: {name!r} is given twice")
        try:
            metadata[name] = json.loads(value)
        except (ValueError, RecursionError):
            metadata[name] = value
    return metadata

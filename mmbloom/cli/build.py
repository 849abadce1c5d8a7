"""``mmbloom build``: lists of keys -> a sealed filter file."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from mmbloom.cli import output
from mmbloom.cli.progress import progress
from mmbloom.cli.options import add_list_options, count, open_list

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from mmbloom.build.sources import KeyList
    from mmbloom.keys.batches import Piece

NAME = "build"
HELP = "build a filter file from lists of keys"
DESCRIPTION = """\
Build a filter file from lists of keys: text, one key a line, LF or CR LF; empty lines are no keys. gzip, xz, zstd and
bzip2 lists are read as they are, recognised by content. Repetitions are dropped and the file is as large as the distinct
keys need. It appears complete or not at all. Memory: 32 bytes a key while building, beside the filter itself.
"""
EPILOG = """\
examples:
  mmbloom build passwords.txt.xz -o passwords.mmb --fpr 0.001
  mmbloom build pwned-sha1.txt -o pwned.mmb --fpr 0.001 --hibp      (lines are HASH:count)
  zcat urls-*.gz | mmbloom build - -o urls.mmb --fpr 1e-6 --meta source=crawl --meta version=2026-11
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("lists", nargs="+", metavar="LIST", help="a list of keys; - is standard input")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the filter file to write")
    parser.add_argument(
        "--fpr", required=True, type=float, metavar="P", help="false-positive rate, for instance 0.001"
    )
    parser.add_argument(
        "--capacity", type=count, metavar="N", help="make room for N distinct keys (default: as many as there are)"
    )
    parser.add_argument(
        "--layout",
        default="auto",
        metavar="NAME",
        help="classic, line, page or auto (default; 'mmbloom plan' compares them)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the hash (default 0)")
    parser.add_argument(
        "--key-form",
        default=None,
        metavar="FORM",
        help="raw (default), or hex: digests in hexadecimal, upper or lower case",
    )
    add_list_options(parser)
    parser.add_argument(
        "--hibp",
        action="store_true",
        help="lines are HASH:count, as in breach lists: --delimiter : --field 1 --key-form hex",
    )
    parser.add_argument(
        "--meta",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="store a fact in the file; VALUE is JSON, or else text (repeatable)",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists; readers keep the old one")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no summary")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Build the file and say what happened."""
    from mmbloom.build.memory import Parameters, build_from_batches  # noqa: PLC0415 - loads only when used

    if arguments.hibp:
        arguments.delimiter = arguments.delimiter or ":"
        arguments.key_form = arguments.key_form or "hex"
    parameters = Parameters(
        arguments.fpr,
        arguments.capacity,
        arguments.layout,
        arguments.seed,
        arguments.key_form or "raw",
        _metadata(arguments.meta) or None,
    )
    with ExitStack() as stack:
        lists = [stack.enter_context(open_list(path, arguments)) for path in arguments.lists]
        report = stack.enter_context(progress(quiet=arguments.quiet))
        total_bytes = sum(source.total_bytes for source in lists)

        def show(state: Any) -> None:  # noqa: ANN401 - build.memory.Progress
            done_bytes = sum(source.done_bytes for source in lists)
            total = state.total
            if state.phase == "hash" and total_bytes and done_bytes:
                total = max(state.done, round(state.done * total_bytes / done_bytes))  # by the share of bytes read
            report(state.phase, state.done, total)

        result = build_from_batches(
            arguments.output,
            (piece.batch for piece in _pieces(lists)),
            parameters,
            "replace" if arguments.force else "raise",
            show,
        )
    _print_summary(arguments, result)
    return 0


def _pieces(lists: list[KeyList]) -> Iterator[Piece]:
    for source in lists:
        yield from source.__key_pieces__()


def _print_summary(arguments: argparse.Namespace, result: Any) -> None:  # noqa: ANN401 - build.memory.BuildReport
    from mmbloom import BloomFilter  # noqa: PLC0415 - loads only when used

    with BloomFilter.open(arguments.output) as built:
        facts = built.info()
    seconds = sum(result.seconds.values())
    if arguments.json:
        output.print_json(
            facts | {"keys_read": result.keys_read, "seconds": {k: round(v, 6) for k, v in result.seconds.items()}}
        )
    elif not arguments.quiet:
        repetitions = result.keys_read - result.keys_added
        phases = ", ".join(f"{phase} {spent:.2f}" for phase, spent in result.seconds.items())
        output.print_rows(
            [
                ("file", f"{arguments.output}, {output.size_text(result.file_bytes)}"),
                ("keys", f"{output.count_text(result.keys_added)} ({output.count_text(repetitions)} repetitions)"),
                ("layout", f"{facts['layout']}, {facts['num_probes']} probes, {facts['bits_per_key']:.2f} bits a key"),
                ("fpr", f"{output.rate_text(facts['expected_fpr'])}; asked for {arguments.fpr:g}"),
                ("time", f"{seconds:.2f} s ({phases}), {output.count_text(result.keys_read / seconds)} keys/s"),
            ]
        )


def _metadata(pairs: list[str]) -> dict[str, Any]:
    from mmbloom.errors import ParameterError  # noqa: PLC0415 - loads only when used

    metadata: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise ParameterError("--meta", "NAME=VALUE", pair)
        try:
            metadata[name] = json.loads(value)
        except ValueError:
            metadata[name] = value
    return metadata

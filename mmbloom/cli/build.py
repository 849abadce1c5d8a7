"""``mmbloom build``: lists of keys -> a filter file."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from mmbloom.cli import output, streams
from mmbloom.cli.failures import (
    CommandError,
    force_is_an_option,
    hibp_is_an_option,
    show_bad_lines,
)
from mmbloom.cli.options import (
    UsageError,
    add_list_options,
    add_metadata,
    check_output,
    count,
    metadata_of,
    open_lists,
    rate,
    resolve_hibp,
    seed,
    size,
)
from mmbloom.cli.progress import progress

if TYPE_CHECKING:
    import argparse

    from mmbloom import BuildReport
    from mmbloom.sources.list_reader import ListReader
    from mmbloom.storage.publish import IfExists

DESCRIPTION = """\
Build a filter file from lists of keys: text, one key a line; CSV, JSON lines,
Parquet or Arrow, one column; or a folder of range files. Compressed lists
(gzip, xz, zstd, bzip2) are read directly. Repeated keys count once, and the
file is as large as the distinct keys need. It appears complete or not at all;
an existing file is replaced only with --force. Keys that do not fit in
--memory, at 16 bytes a key, go to a temporary spill file.
"""
EPILOG = """\
examples:
  mmbloom build passwords.txt.xz -o passwords.mmb
  mmbloom build pwned-sha1.txt -o pwned.mmb --hibp    # HASH:count
  mmbloom build 'urls-*.gz' -o urls.mmb --fpr 1e-6 --meta source=crawl
  mmbloom build users.csv.zst --column email -o users.mmb --fpr 1e-4
  mmbloom build denied.txt -o denied.mmb --kind fuse    # smallest
  mmbloom build denied.txt -o denied.mmb --fpr 0.01 --kind counting
  mmbloom build huge.txt.gz -o huge.mmb --memory 2G --resume
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from mmbloom import DEFAULT_FPR, KINDS

    parser.add_argument(
        "lists",
        nargs="+",
        metavar="LIST",
        help="a list of keys, a pattern such as 'urls-*.gz', or a folder of range files; - is "
        "standard input",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the filter file to write"
    )
    parser.add_argument(
        "--fpr",
        type=rate,
        default=DEFAULT_FPR,
        metavar="P",
        help="false-positive rate (default %(default)s)",
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="bloom",
        help="bloom (the default); fuse: smaller, with the next power of two below P as its "
        "rate; no key can be added to it later, and files of it cannot be merged; or counting: "
        "keys can be added and removed later, in four times the space ('mmbloom add', 'mmbloom "
        "remove'). Each distinct key counts once, and the file is not sealed: 'mmbloom export' "
        "makes the read-only one",
    )
    parser.add_argument(
        "--capacity",
        type=count,
        metavar="N",
        help="make room for N distinct keys (default: as many as there are). If a bloom filter "
        "fits in memory, more than 8 million keys are then added as they come, which is faster; "
        "repetitions are not counted, and the number of keys is an estimate",
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="count the distinct keys one by one, --capacity or not",
    )
    parser.add_argument(
        "--layout",
        default="auto",
        metavar="NAME",
        help="classic, line, page or auto (the default); for kind fuse fuse3 (the default), or "
        "fuse4: 4 %% smaller, one more cache line a look-up. 'mmbloom plan' compares them",
    )
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of the hash (default 0), or random: see 'mmbloom help security'",
    )
    parser.add_argument(
        "--key-form",
        metavar="FORM",
        help="raw (the default), or hex: digests in hexadecimal, upper or lower case",
    )
    add_list_options(parser, on_error=True)
    _add_resources(parser)
    add_metadata(parser)
    parser.add_argument(
        "--force", action="store_true", help="replace FILE if it exists; readers keep the old one"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no summary")
    output.add_json(parser)


def _add_resources(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("resources")
    group.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="memory to use, such as 512M or 8G, beside some 35M of Python itself (default: a "
        "quarter of what is free)",
    )
    group.add_argument("--jobs", type=int, metavar="N", help="threads to use (default: one a core)")
    group.add_argument(
        "--spill-folder",
        metavar="FOLDER",
        help="where the spill file is made (default: the folder of FILE)",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="keep what has been read, in a folder .NAME.resume beside the spill file, and go on "
        "with what an interrupted build has left there",
    )


def run(arguments: argparse.Namespace) -> int:
    """Build the file and say what happened."""
    from mmbloom import CapacityError, build

    _resolve(arguments)
    metadata = metadata_of(arguments) or None
    with ExitStack() as stack:
        stack.enter_context(force_is_an_option(arguments))
        stack.enter_context(hibp_is_an_option(arguments))
        lists = stack.enter_context(open_lists("mmbloom build", arguments.lists, arguments))
        _refuse_own_list(lists, arguments.output)
        show = stack.enter_context(progress(quiet=arguments.quiet))
        if_exists: IfExists = "replace" if arguments.force else "raise"
        try:
            built = stack.enter_context(
                build(
                    arguments.output,
                    lists,
                    kind=arguments.kind,
                    fpr=arguments.fpr,
                    capacity=arguments.capacity,
                    layout=arguments.layout,
                    seed=arguments.seed,
                    key_form=arguments.key_form or "raw",
                    metadata=metadata,
                    if_exists=if_exists,
                    memory=arguments.memory,
                    jobs=arguments.jobs,
                    spill_folder=arguments.spill_folder,
                    exact=arguments.exact,
                    resume=arguments.resume,
                    progress=show,
                )
            )
        except CapacityError as exc:
            message = f"{exc.where}, and --capacity is {exc.capacity}: raise it, or leave it out"
            raise CommandError(message) from exc
        except KeyboardInterrupt:
            if arguments.resume:
                streams.complain("mmbloom build: what was read is kept: the same command goes on")
            raise
        facts = built.info()
    show_bad_lines("mmbloom build", lists, arguments)
    _print_summary(arguments, facts, built.report)
    return 0


def _resolve(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together, and set what --hibp stands for."""
    check_output(arguments.output)
    resolve_hibp(arguments)
    if arguments.hibp:
        if arguments.key_form is not None:
            raise UsageError("--hibp already implies --key-form")
        arguments.key_form = "hex"
    from mmbloom import KINDS

    if arguments.capacity is not None and not KINDS[arguments.kind].can_add:
        raise UsageError(
            f"--capacity: a {arguments.kind} filter has room for the keys of its lists, no others"
        )


def _refuse_own_list(lists: ListReader, path: str) -> None:
    """Refuse to replace a list by the filter of its keys: a slip that loses the list."""
    if lists.reads_from(path):
        raise CommandError(
            f"{path}: one of the lists, which the filter would replace: choose another --output"
        )


def _print_summary(
    arguments: argparse.Namespace, facts: dict[str, Any], report: BuildReport
) -> None:
    from mmbloom import KINDS

    seconds = sum(report.seconds.values())
    if arguments.json:
        rounded = {phase: round(spent, 6) for phase, spent in report.seconds.items()}
        output.print_json(facts | report._asdict() | {"seconds": rounded})
        return
    if arguments.quiet:
        return
    count, size = output.count_text, output.size_text
    layout = f"{facts['layout']}, {count(facts['num_probes'], 'probe')}"
    phases = ", ".join(f"{phase} {spent:.2f}" for phase, spent in report.seconds.items())
    spilled = f", {size(report.spilled_bytes)} spilled" if report.spilled_bytes else ""
    output.print_rows(
        [
            ("file", f"{arguments.output}, {size(facts['file_bytes'])}"),
            ("read", _read_text(report)),
            ("keys", _keys_text(report)),
            ("layout", f"{layout}, {facts['bits_per_key']:.2f} bits a key"),
            *KINDS[facts["kind"]].fact_rows(facts),
            ("fpr", f"{output.rate_text(facts['expected_fpr'])}; asked for {facts['fpr']:g}"),
            ("time", f"{seconds:.2f} s ({phases}), {count(report.keys_read / seconds)} keys/s"),
            ("memory", f"{size(report.peak_memory_bytes)} at most{spilled}"),
        ]
    )


def _read_text(report: BuildReport) -> str:
    count = output.count_text
    resumed = f", {count(report.keys_resumed, 'key')} before" if report.keys_resumed else ""
    left_out = f", {count(report.bad_lines, 'bad one')} left out" if report.bad_lines else ""
    lines = count(report.lines_read, "line")
    return f"{output.size_text(report.bytes_read)}, {lines}{left_out}{resumed}"


def _keys_text(report: BuildReport) -> str:
    count = output.count_text
    if not report.is_exact:
        return f"about {count(report.keys_added)} distinct, {count(report.keys_read)} read"
    repeated = report.keys_read - report.keys_added
    return f"{count(report.keys_added)} distinct, {count(repeated)} repeated"

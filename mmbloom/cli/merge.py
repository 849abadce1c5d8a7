"""``mmbloom merge``: the union of filter files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom import KINDS
from mmbloom.cli import output
from mmbloom.cli.failures import CommandError, force_is_an_option, kind_is_fixed
from mmbloom.cli.options import UsageError, check_output
from mmbloom.cli.progress import progress

if TYPE_CHECKING:
    import argparse

    from mmbloom import UnionCount

DESCRIPTION = """\
Write the union of filter files: exactly the filter that has the keys of all of
them. The files must have the same kind, capacity, rate, layout, seed and key
form. Every file is compared with its checksums on the way. A file that a writer
has open is read as it is now. The union has the metadata of the first FILE.
A union that exceeds the capacity, by an estimate, is refused. --overfill writes
it with a higher false-positive rate, which 'mmbloom info' shows. The number of
its keys is an estimate, unless all files hold the same list.
The union of counting filters adds up their counters, so a key that is in two
files must be removed twice. Memory: 40 MiB, whatever the size of the files.
"""
EPILOG = """\
examples:
  mmbloom merge monday.mmb tuesday.mmb -o week.mmb
  mmbloom merge monday.mmb tuesday.mmb --count-only    # does it fit?

exit codes: 0 done, 1 it exceeds the capacity (--count-only), 2 error.
"""

_BUILD_ALIKE = "Build them with the same --kind, --capacity, --fpr, --layout, --seed and --key-form"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filters", nargs="+", metavar="FILE", help="a filter file")
    parser.add_argument("-o", "--output", metavar="FILE", help="the filter file to write")
    parser.add_argument(
        "--count-only",
        action="store_true",
        help="write nothing: estimate how many keys the files have in all and in common",
    )
    parser.add_argument(
        "--overfill", action="store_true", help="write a union that exceeds the capacity"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace the output if it exists; readers keep the old"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no summary")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Unite the files, or count their keys."""
    from mmbloom import IncompatibleError, WrongKindError

    if arguments.count_only:
        if arguments.output is not None or arguments.force:
            raise UsageError("--count-only writes nothing: leave out --output and --force")
    elif arguments.output is None:
        raise UsageError("-o/--output: name the file to write, or use --count-only")
    else:
        check_output(arguments.output)
    try:
        return (_count if arguments.count_only else _merge)(arguments)
    except IncompatibleError as exc:
        message = f"the files differ in {exc.field}: {exc.left}, {exc.right}"
        raise CommandError(f"{message}. {_BUILD_ALIKE}") from exc
    except WrongKindError as exc:
        raise kind_is_fixed(exc.path, exc.found, "merge") from exc


def _count(arguments: argparse.Namespace) -> int:
    import mmbloom

    with progress(quiet=arguments.quiet) as show:
        found = mmbloom.union_count(arguments.filters, progress=show)
    fits = found.fits or arguments.overfill
    if arguments.json:
        output.print_json(found._asdict() | {"fits": found.fits})
    elif not arguments.quiet:
        _print_count(found, arguments.filters)
    return 0 if fits else 1


def _merge(arguments: argparse.Namespace) -> int:
    import mmbloom

    with force_is_an_option(arguments), progress(quiet=arguments.quiet) as show:
        try:
            merged = mmbloom.merge(
                arguments.output,
                arguments.filters,
                overfill=arguments.overfill,
                if_exists="replace" if arguments.force else "raise",
                progress=show,
            )
        except mmbloom.CapacityError as exc:
            raise CommandError(
                f"{exc.where}, and they are sized for {exc.capacity}. Build them with a larger "
                "--capacity, or add --overfill and accept a higher rate"
            ) from exc
    with merged:
        facts = merged.info()
    if arguments.json:
        output.print_json(facts)
    elif not arguments.quiet:
        _print_summary(facts)
    return 0


def _keys_text(keys: int, capacity: int, *, exact: bool) -> str:
    about = "" if exact else "about "
    return f"{about}{output.count_text(keys)} of {output.count_text(capacity)}"


def _print_count(found: UnionCount, paths: list[str]) -> None:
    count = output.count_text
    keys = _keys_text(found.keys, found.capacity, exact=found.exact)
    about = "" if found.exact else "about "
    each = zip(paths, found.keys_each, strict=True)
    output.print_rows(
        [
            ("keys", keys if found.fits else f"{keys}: too many"),
            ("repeated", f"{about}{count(found.repeated)}"),
            ("fpr", f"{output.rate_text(found.expected_fpr)} of the union"),
            *(("file", f"{path}, {count(keys, 'key')}") for path, keys in each),
        ]
    )


def _print_summary(facts: dict[str, Any]) -> None:
    keys = _keys_text(facts["keys_added"], facts["capacity"], exact=facts["keys_exact"])
    output.print_rows(
        [
            ("file", f"{facts['path']}, {output.size_text(facts['file_bytes'])}"),
            ("keys", keys),
            ("fpr", f"{output.rate_text(facts['expected_fpr'])}; sized for {facts['fpr']:g}"),
            *KINDS[facts["kind"]].fact_rows(facts),
        ]
    )

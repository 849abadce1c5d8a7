"""``mmbloom audit``: the false-positive rate of a filter, measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.cli import output
from mmbloom.cli.failures import hibp_is_an_option, refuse_hibp_of_text, show_bad_lines
from mmbloom.cli.options import (
    UsageError,
    add_list_options,
    count,
    has_list_options,
    open_lists,
    rate,
    resolve_hibp,
)
from mmbloom.cli.progress import of_lists, progress

if TYPE_CHECKING:
    import argparse

    from mmbloom import AuditReport, Filter
    from mmbloom.cli.progress import Show

DESCRIPTION = """\
Measure the false-positive rate of a filter with keys that were never added: the
lines of --negatives, or --random keys of 16 bytes. The rate is printed with its
Wilson interval, beside the rate that the filter was made for and the rate that
its bytes give. A repeated key counts once. Memory: 32 bytes for each key.
"""
EPILOG = """\
examples:
  mmbloom audit passwords.mmb --random 1e6
  mmbloom audit seen.mmb --negatives never-seen.txt.gz --confidence 0.99

exit codes: 0 the interval contains the rate that the filter was made for, or
lies below it; 1 the interval lies above it; 2 error.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filter", metavar="FILE", help="the filter file")
    parser.add_argument(
        "--negatives",
        action="append",
        metavar="LIST",
        help="a list of keys that were never added, or a pattern; - is standard input (repeatable)",
    )
    parser.add_argument(
        "--random", dest="num_keys", type=count, metavar="N", help="look up N random keys instead"
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="seed of the random keys, not the filter's (default 0)",
    )
    parser.add_argument(
        "--confidence",
        type=rate,
        default=0.95,
        metavar="C",
        help="chance that such an interval contains the rate (default 0.95)",
    )
    add_list_options(parser, on_error=True)
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no figures")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look the keys up and print the figures; return 0 if the target is not refuted."""
    from mmbloom import open as open_filter

    resolve_hibp(arguments)
    if (arguments.negatives is None) == (arguments.num_keys is None):
        raise UsageError("give keys that are no members: --negatives LIST or --random N")
    if arguments.num_keys is None and arguments.seed is not None:
        raise UsageError("--seed is for --random")
    if arguments.num_keys is not None and has_list_options(arguments):
        raise UsageError("--random needs no options for lists: leave them out")
    with (
        open_filter(arguments.filter) as audited,
        progress(quiet=arguments.quiet) as show,
    ):
        refuse_hibp_of_text(arguments, audited.key_form)
        ask = _audit_list if arguments.num_keys is None else _audit_random
        report = ask(audited, arguments, show)
    if arguments.json:
        output.print_json(
            report._asdict() | {"passed": report.passed, "likely_members": report.likely_members}
        )
    elif not arguments.quiet:
        _print_report(arguments.filter, report)
    return 0 if report.passed else 1


def _audit_random(audited: Filter, arguments: argparse.Namespace, show: Show) -> AuditReport:
    import mmbloom

    total: int = arguments.num_keys
    keys = mmbloom.RandomKeys(total, seed=arguments.seed or 0, key_form=audited.key_form)
    return mmbloom.audit(
        audited,
        keys,
        confidence=arguments.confidence,
        progress=lambda state: show(state._replace(total=total)),
    )


def _audit_list(audited: Filter, arguments: argparse.Namespace, show: Show) -> AuditReport:
    import mmbloom

    arguments.key_form = audited.key_form  # opening a list warns of what looks wrong for it
    with (
        hibp_is_an_option(arguments),
        open_lists("mmbloom audit", arguments.negatives, arguments) as keys,
    ):
        report = mmbloom.audit(
            audited,
            keys,
            confidence=arguments.confidence,
            progress=of_lists(show, keys),
        )
    show_bad_lines("mmbloom audit", keys, arguments)
    return report


def _print_report(path: str, report: AuditReport) -> None:
    number, rate_text = output.count_text, output.rate_text
    repeated = f", {number(report.repeated)} repeated" if report.repeated else ""
    interval = f"{report.low:.3g} to {report.high:.3g}"
    verdict = "not above the target" if report.passed else "above the target"
    rows: list[tuple[str, object]] = [
        ("file", path),
        ("looked up", f"{number(report.looked_up, 'distinct key')}{repeated}"),
        ("maybe", number(report.maybes)),
        ("measured", f"{rate_text(report.measured_fpr)}; {verdict}"),
        ("interval", f"{interval}, {100 * report.confidence:g} % (Wilson)"),
        ("target", rate_text(report.target)),
        ("expected", f"{rate_text(report.expected)} of the filter as it is"),
    ]
    if report.likely_members:
        members = number(report.likely_members)
        rows.append(("note", f"more than chance explains: about {members} of the keys are members"))
    output.print_rows(rows)

"""``mmbloom remove``: keys leave a counting filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.cli import output, streams
from mmbloom.cli.failures import (
    CommandError,
    not_counting,
    refuse_hibp_of_text,
)
from mmbloom.cli.options import resolve_hibp
from mmbloom.cli.taking import add_common_arguments, left_out_text, print_facts, take_all

if TYPE_CHECKING:
    import argparse

    from mmbloom import CountingBloomFilter, RemovalReport

DESCRIPTION = """\
Remove the keys of lists from a counting filter, each distinct key once. All
lists are read and looked up first: if a key is definitely not in the filter, or
a line is bad, nothing is removed. A key that was added twice must be removed
twice. Remove only keys that were added: a key that is 'maybe' by chance is
removed all the same, which damages other keys. So do not repeat a removal that
was interrupted with --skip-absent: some of the keys that it had removed are
'maybe' by chance. Build the filter again, or go back to a copy.
Each list is read once, so - is allowed. Memory: 32 bytes for each key.
"""
EPILOG = """\
examples:
  mmbloom remove denied.mmb left.txt
  mmbloom remove denied.mmb left.txt --dry-run          # what would happen?
  mmbloom remove denied.mmb left.txt --skip-absent

exit codes: 0 done, 1 with --dry-run: they would be refused, 2 error.
"""

_CUT_SHORT = "a writer was killed while it had the file open, or has it open now"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--skip-absent",
        action="store_true",
        help="skip keys that are definitely not in the filter, instead of removing nothing; right "
        "only if all other keys were added: a key that was not may be 'maybe' by chance",
    )
    add_common_arguments(parser, filter_help="the counting filter", pattern="left-*.gz")


def run(arguments: argparse.Namespace) -> int:
    """Look the keys up, and remove them."""
    import mmbloom

    resolve_hibp(arguments)
    cut_short = _was_cut_short(arguments)
    with _open(arguments) as target:
        refuse_hibp_of_text(arguments, target.key_form)
        leaving = mmbloom.Removals(target)
        num_read, num_bad = take_all("mmbloom remove", leaving, target.key_form, arguments)
        facts: dict[str, Any] = {
            "path": arguments.filter,
            "keys_read": num_read,
            "bad_lines": num_bad,
            "distinct_keys": len(leaving),
            "absent_keys": leaving.num_absent(),
            "keys_before": target.keys_added,
            "capacity": target.capacity,
        }
        refusal = _refusal(facts, arguments, cut_short=cut_short)
        if arguments.dry_run:
            removed = mmbloom.RemovalReport(0, 0, 0)
        else:
            if refusal:
                raise CommandError(f"{refusal}. Nothing was removed")
            removed = leaving.remove(if_absent="skip" if arguments.skip_absent else "raise")
        facts |= {
            "removed_keys": removed.keys,
            "gone_keys": removed.gone,
            "never_added": removed.never_added,
            "keys_added": target.keys_added,
            "expected_fpr": target.expected_fpr(),
        }
    _warn(removed, arguments)
    print_facts(facts, refusal, arguments, _rows(facts), "nothing was removed")
    return 1 if refusal else 0


def _was_cut_short(arguments: argparse.Namespace) -> bool:
    """Return whether a writer was killed, or is at work, so that a removal may be half done.

    Raises:
        CommandError: nothing can be removed from the file; or absent keys are to be skipped, which
            look like those that the other removal has removed.
    """
    from mmbloom import CountingBloomFilter, WrongKindError

    try:
        found = CountingBloomFilter.open(arguments.filter, advice="normal")
    except WrongKindError as exc:
        raise not_counting(arguments.filter, exc.found, "remove") from exc
    with found:
        facts = found.info()
        sealed, cut_short = found.sealed, bool(facts["writer_open"])
    if sealed:
        raise CommandError(
            f"{arguments.filter}: it is sealed, and a sealed file never changes. 'mmbloom merge "
            f"{arguments.filter} -o NEW' copies it to a file that can be changed"
        )
    if cut_short and arguments.skip_absent and not arguments.dry_run:
        raise CommandError(
            f"{arguments.filter}: {_CUT_SHORT}. With --skip-absent keys that it removed could be "
            "removed again, and other keys then lack what they took: leave out --skip-absent. "
            "Nothing was removed"
        )
    return cut_short


def _open(arguments: argparse.Namespace) -> CountingBloomFilter:
    """Open the file: for writing, unless nothing is to be written."""
    from mmbloom import CountingBloomFilter

    if arguments.dry_run:
        return CountingBloomFilter.open(arguments.filter, advice="normal")
    return CountingBloomFilter.open_writable(arguments.filter)


def _refusal(facts: dict[str, Any], arguments: argparse.Namespace, *, cut_short: bool) -> str:
    """Return why the keys must not be removed, "" if they may."""
    if not facts["absent_keys"] or arguments.skip_absent:
        return ""
    count = output.count_text
    found = (
        f"{facts['path']}: of {count(facts['distinct_keys'], 'distinct key')}, "
        f"{count(facts['absent_keys'])} definitely not in: never added, or removed already"
    )
    if cut_short:
        return (
            f"{found}. {_CUT_SHORT[0].upper()}{_CUT_SHORT[1:]}: if that was the removal of these "
            "keys, build the filter again, or go back to a copy. "
            "--skip-absent would remove some of "
            "them twice, and other keys then lack what they took"
        )
    return (
        f"{found}. 'mmbloom check -v' prints them; if all others were added, and not removed "
        "since, --skip-absent skips them"
    )


def _warn(removed: RemovalReport, arguments: argparse.Namespace) -> None:
    if removed.never_added and not arguments.quiet:
        streams.complain(
            f"mmbloom remove: note: {output.count_text(removed.never_added, 'key')} had lost what "
            "made them 'maybe' when it was their turn: keys of these lists were never added, and "
            "other keys now lack what they took. Build the filter again"
        )


def _rows(facts: dict[str, Any]) -> dict[str, list[tuple[str, object]]]:
    """Return the rows of the summary, for print_facts()."""
    count = output.count_text
    repeated = count(facts["keys_read"] - facts["distinct_keys"])
    still = facts["removed_keys"] - facts["gone_keys"]
    read = f"{count(facts['distinct_keys'], 'key')}; {repeated} repeated"
    return {
        "found": [
            ("read", f"{read}{left_out_text(facts)}"),
            ("absent", f"{count(facts['absent_keys'])}, definitely not in"),
        ],
        "done": [
            ("removed", f"{count(facts['removed_keys'])}; {count(still)} of them still 'maybe'"),
            ("left", f"{count(facts['keys_added'])} of {count(facts['capacity'])}"),
            ("fpr", output.rate_text(facts["expected_fpr"])),
        ],
    }

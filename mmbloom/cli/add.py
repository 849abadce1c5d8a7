"""``mmbloom add``: more keys for a filter file that is not sealed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from mmbloom.cli import output
from mmbloom.cli.failures import (
    CommandError,
    kind_is_fixed,
    refuse_hibp_of_text,
)
from mmbloom.cli.options import UsageError, rate, resolve_hibp
from mmbloom.cli.taking import add_common_arguments, left_out_text, print_facts, take_all

if TYPE_CHECKING:
    import argparse

    from mmbloom import Additions, BloomFilter, CountingBloomFilter

DESCRIPTION = """\
Add the keys of lists to a filter file that is not sealed, as those are that
'mmbloom create' and 'mmbloom build --kind counting' make. First all lists
are read and looked up: how many keys are new, and what the false-positive rate
will be. Then all new keys are added, or, if they do not fit or a line is bad,
none. Lists are read once, so - is fine. Memory: 32 bytes a new key.
A counting filter counts each distinct key of the lists once more, also one that
was in: that has to be removed as often as it was added.
"""
EPILOG = """\
examples:
  mmbloom add crawl.mmb today.txt.gz
  mmbloom add crawl.mmb today.txt.gz --dry-run        # what would happen?
  mmbloom add crawl.mmb - --max-fpr 0.001 < more.txt

exit codes: 0 done, 1 with --dry-run: they would be refused, 2 error.
"""


_SEALED = "it is sealed, and a sealed file never changes. "
_COPY = "'mmbloom merge {0} -o NEW' copies it to a file that can be changed"
_UNITE = (
    "Build a file of the new keys with the same --capacity, --fpr, --layout, --seed and "
    "--key-form, and unite the two with 'mmbloom merge'; or build it again from all lists"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--max-fpr", type=rate, metavar="P", help="refuse if the rate would be above P"
    )
    add_common_arguments(parser, filter_help="the filter file", pattern="urls-*.gz")


def run(arguments: argparse.Namespace) -> int:
    """Count the new keys, weigh them, add them."""
    import mmbloom

    resolve_hibp(arguments)
    if arguments.max_fpr is not None and not 0 < arguments.max_fpr < 1:
        raise UsageError(f"--max-fpr: expected 0 < P < 1, found {arguments.max_fpr:g}")
    with _open(arguments) as target:
        refuse_hibp_of_text(arguments, target.key_form)
        new = mmbloom.Additions(target)
        num_read, num_bad = take_all("mmbloom add", new, target.key_form, arguments)
        facts: dict[str, Any] = {
            "path": arguments.filter,
            "keys_read": num_read,
            "bad_lines": num_bad,
            "new_keys": len(new),
            "keys_to_add": new.num_to_add,
            "keys_before": target.keys_added,
            "capacity": target.capacity,
            "fpr": target.fpr,
            "expected_fpr_before": target.expected_fpr(),
            "forecast_fpr": new.forecast(),
        }
        refusal = _refusal(new, facts, arguments.max_fpr)
        if not arguments.dry_run:
            if refusal:
                raise CommandError(f"{refusal}. Nothing was added")
            new.add()
        facts |= {"keys_added": target.keys_added, "expected_fpr": target.expected_fpr()}
    print_facts(facts, refusal, arguments, _rows(facts), "nothing was added")
    return 1 if refusal else 0


def _open(arguments: argparse.Namespace) -> BloomFilter | CountingBloomFilter:
    """Open the file: for writing, unless nothing is to be written."""
    import mmbloom

    path = arguments.filter
    found = mmbloom.open(path, advice="normal")
    kind, sealed = mmbloom.KINDS[found.kind], found.sealed
    if arguments.dry_run and not sealed and kind.can_add:
        return cast("BloomFilter", found)
    found.close()
    if not kind.can_add:
        raise kind_is_fixed(path, kind.name, "add")
    if sealed:
        raise CommandError(
            f"{path}: {_SEALED}" + (_COPY if kind.can_remove else _UNITE).format(path)
        )
    return cast("BloomFilter", mmbloom.open_writable(path))


def _refusal(new: Additions, facts: dict[str, Any], max_fpr: float | None) -> str:
    """Return why the keys must not be added, "" if they may."""
    count = output.count_text
    if not new.fits():
        return (
            f"{facts['path']}: {count(facts['keys_before'], 'key')} and "
            f"{count(facts['new_keys'], 'new one')} are more than its capacity of "
            f"{count(facts['capacity'])}. Make a larger filter"
        )
    if max_fpr is not None and facts["forecast_fpr"] > max_fpr:
        return (
            f"{facts['path']}: with {count(facts['new_keys'], 'new key')} its rate would be "
            f"{facts['forecast_fpr']:.3g}, above --max-fpr {max_fpr:g}"
        )
    return ""


def _rows(facts: dict[str, Any]) -> dict[str, list[tuple[str, object]]]:
    """Return the rows of the summary, for print_facts()."""
    count, rate_text = output.count_text, output.rate_text
    others = count(facts["keys_read"] - facts["new_keys"])
    again = facts["keys_to_add"] - facts["new_keys"]
    counted = f"; {count(again)} counted again" if again else ""
    new = f"{count(facts['new_keys'], 'key')}; {others} known or repeated"
    return {
        "found": [
            ("new", f"{new}{counted}{left_out_text(facts)}"),
            ("fpr now", rate_text(facts["expected_fpr_before"])),
            ("forecast", f"{rate_text(facts['forecast_fpr'])}; {facts['fpr']:g} when full"),
        ],
        "done": [
            ("in all", f"{count(facts['keys_added'])} of {count(facts['capacity'])}"),
            ("fpr", rate_text(facts["expected_fpr"])),
        ],
    }

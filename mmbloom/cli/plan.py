"""``mmbloom plan``: what a filter would cost, before it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.cli import output
from mmbloom.cli.options import count, rate

if TYPE_CHECKING:
    import argparse

    from mmbloom.kinds.kind import Plan

DESCRIPTION = """\
Compare kinds and layouts for a number of keys and a false-positive rate.

columns:
  file    size of the file
  bits    bits per key
  probes  places that a look-up reads
  lines   cache lines that a look-up touches
  faults  reads from the disk per look-up, while the file is not in memory
  build   memory to build the file in one step; with less, it takes several
  fpr     false-positive rate of the full filter

'later' says what can be done with a filter of each kind before it is sealed.
'mmbloom build' seals its files, except counting filters; 'mmbloom create' makes
files that are not sealed. A * marks the layout that 'mmbloom build' uses by
default, or with --use the one that suits the use.
"""
EPILOG = """\
examples:
  mmbloom plan --keys 1e9 --fpr 0.001
  mmbloom plan --keys 1e9 --fpr 0.001 --use static
  mmbloom plan --keys 1e6 --fpr 0.001 --use shrinking    # members leave it
"""
_ROUND_FROM = 99.995  # bits a key, from here on without decimals: the table has 80 columns
USES = {
    "static": "the list is built once and served from memory",
    "cold": "the file is larger than memory: each look-up reads the disk",
    "growing": "keys are added while it is served",
    "shrinking": "keys leave it too",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--keys",
        dest="capacity",
        required=True,
        type=count,
        metavar="N",
        help="distinct keys, for instance 1e9",
    )
    parser.add_argument(
        "--fpr", required=True, type=rate, metavar="P", help="false-positive rate, such as 0.001"
    )
    uses = "; ".join(f"{name}: {meaning}" for name, meaning in USES.items())
    parser.add_argument("--use", choices=USES, metavar="USE", help=f"recommend for a use. {uses}")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one row a layout."""
    import mmbloom

    capacity, fpr = arguments.capacity, arguments.fpr
    auto = mmbloom.plan(capacity, fpr).layout
    kinds = sorted(mmbloom.KINDS.values(), key=lambda kind: not kind.can_add)
    rows = [
        _row(plan, capacity)
        for kind in kinds
        for plan in sorted(kind.plans(capacity, fpr), key=_place)
    ]
    chosen, why = _recommended(arguments.use, auto, rows) if arguments.use else (auto, "")
    if arguments.json:
        advice = {"use": arguments.use, "recommended": chosen, "why": why} if arguments.use else {}
        output.print_json({"keys": capacity, "fpr": fpr, "auto": auto, "layouts": rows, **advice})
        return 0
    output.print_rows(
        [("keys", output.count_text(capacity)), ("fpr", output.rate_text(fpr)), ("", "")]
    )
    output.print_table(
        (
            "layout",
            "kind",
            "file",
            "bits",
            "probes",
            "lines",
            "faults",
            "build",
            "fpr",
        ),
        [
            (
                row["layout"] + (" *" if row["layout"] == chosen else ""),
                row["kind"],
                output.size_text(row["file_bytes"]),
                f"{row['bits_per_key']:,.{2 if row['bits_per_key'] < _ROUND_FROM else 0}f}",
                str(row["num_probes"]),
                str(row["cache_lines"]),
                str(row["page_faults"]),
                output.size_text(row["build_memory_bytes"]),
                f"{row['fpr']:.3g}",
            )
            for row in rows
        ],
    )
    later = {row["kind"]: row["later"] for row in rows}
    uses = "; ".join(f"{kind}: {what}" for kind, what in later.items())
    lines: list[tuple[str, object]] = [("", ""), ("later", uses)]
    if why:
        lines.append((arguments.use, f"{chosen}: {why}"))
    output.print_rows(lines)
    return 0


def _place(plan: Plan) -> int:
    """Return the place of a row among those of its kind, the same for all rates."""
    import mmbloom

    return mmbloom.KINDS[plan.kind].layouts.index(plan.layout)


def _row(plan: Plan, capacity: int) -> dict[str, Any]:
    """Return the facts of a row, in the order of --json."""
    facts = plan._asdict()
    facts.pop("payload_bytes")
    bits = {"num_bits": facts.pop("num_bits"), "bits_per_key": plan.num_bits / capacity}
    names = {"layout": facts.pop("layout"), "kind": facts.pop("kind")}
    return names | {"file_bytes": plan.file_bytes} | bits | facts


def _recommended(use: str, auto: str, rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the layout for a use, and why."""
    import mmbloom

    if use == "shrinking":
        best = next(row for row in rows if mmbloom.KINDS[row["kind"]].can_remove)
        return best["layout"], f"'mmbloom build --kind {best['kind']}': keys can be removed"
    fixed = [row for row in rows if not mmbloom.KINDS[row["kind"]].can_add]
    if use == "static" and fixed:
        best = min(fixed, key=lambda row: row["file_bytes"])
        usual = next(row for row in rows if row["layout"] == auto)
        if best["file_bytes"] < usual["file_bytes"]:
            share = 100 * (1 - best["file_bytes"] / usual["file_bytes"])
            return best["layout"], f"{share:.0f} % smaller than {auto}, and it never changes"
    reasons = {
        "static": "the smallest with this rate",
        "cold": "one read from the disk for each look-up",
        "growing": "'mmbloom create' makes it; it takes keys until it is sealed",
    }
    return auto, reasons[use]

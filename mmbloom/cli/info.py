"""``mmbloom info``: what a filter file says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.cli import output

if TYPE_CHECKING:
    import argparse

NAME = "info"
HELP = "show what a filter file is, and how full"
DESCRIPTION = """\
Show what a filter file is: parameters, keys, rates, where it came from, and a chart of its fill. Each column of the chart
is an equal stretch of the payload, from empty to full. Hashes are uniform, so the columns of a sound filter are alike;
'mmbloom verify' proves it. Reads the whole payload.
"""
EPILOG = """\
examples:
  mmbloom info passwords.mmb
  mmbloom info passwords.mmb --json | jq .expected_fpr
"""

_COLUMNS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filter", metavar="FILE", help="the filter file")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the facts."""
    from mmbloom import BloomFilter  # noqa: PLC0415 - loads only when used

    with BloomFilter.open(arguments.filter) as found:
        facts = found.info()
        shares = found.fill_by_region(_COLUMNS)
    if arguments.json:
        output.print_json(facts | {"fill_by_region": shares})
        return 0
    output.print_rows(_rows(facts))
    low, high = min(shares), max(shares)
    chart = output.fill_chart(shares)
    output.print_rows([("fill by region", f"|{chart}| {100 * low:.1f} to {100 * high:.1f} %")])
    return 0


def _rows(facts: dict[str, Any]) -> list[tuple[str, object]]:
    count, rate = output.count_text, output.rate_text
    exactness = "distinct" if facts["keys_exact"] else "that set a bit"
    metadata = ", ".join(f"{name}: {value}" for name, value in facts["metadata"].items()) or "none"
    overfill = ", more are let in" if facts["overfill"] else ""
    return [
        ("file", f"{facts['path']}, {output.size_text(facts['file_bytes'])}, {facts['state']}"),
        ("kind", f"{facts['kind']}, layout {facts['layout']}, {facts['num_probes']} probes"),
        ("keys", f"{count(facts['keys_added'])} {exactness}, of {count(facts['capacity'])}{overfill}"),
        ("fpr", f"{rate(facts['expected_fpr'])} as it is; {facts['fpr']:g} when full"),
        ("bits", f"{count(facts['num_bits'])}, {facts['bits_per_key']:.2f} a key, {100 * facts['fill_ratio']:.1f} % set"),
        ("key form", facts["key_form"]),
        ("seed", facts["seed"]),
        ("created", facts["created"]),
        ("uuid", facts["uuid"]),
        ("format", f"version {facts['format_version']}"),
        ("metadata", metadata),
        ("engine", f"{facts['engine']} (of this program)"),
    ]

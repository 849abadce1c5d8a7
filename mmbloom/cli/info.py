"""``mmbloom info``: what a filter file says of itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mmbloom import KINDS
from mmbloom.cli import output

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DESCRIPTION = """\
Show the parameters, keys, rates and origin of a filter file, and a chart of its
fill. Each column of the chart is an equal part of the payload, as high as the
emptiest stretch in it. Hashes spread keys evenly, so a dip means lost data,
except in a fuse filter, where each shard is emptier at its ends. The whole
payload is read; 'mmbloom verify' compares it with its checksums.
"""
EPILOG = """\
examples:
  mmbloom info passwords.mmb
  mmbloom info passwords.mmb --json | python3 -m json.tool
"""

_COLUMNS = 64
_MOST_STRETCHES = 64 * _COLUMNS
_STRETCH_BYTES = 4096  # no shorter: a disk loses no less, and few bits vary much by chance
# A stretch with half the bits of the others is no chance when they are those of so many keys:
# the count of keys in it is Poisson, and 10 standard deviations lower.
_FEWEST_KEYS_TO_JUDGE = 400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filter", metavar="FILE", help="the filter file")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the facts."""
    from mmbloom import open as open_filter

    with open_filter(arguments.filter, advice="normal") as found:
        facts = found.info()
        count_now = getattr(found, "approx_count", None)
        if count_now is None or not facts["writer_open"]:
            keys = _keys_text(facts, facts["keys_added"])
        else:
            keys = _keys_text(facts, count_now())
        if arguments.json:
            output.print_json(facts | {"fill_by_region": found.fill_by_region(_COLUMNS)})
            return 0
        stretches = facts["payload_bytes"] // _STRETCH_BYTES
        per_column = min(max(1, stretches // _COLUMNS), _MOST_STRETCHES // _COLUMNS)
        shares = found.fill_by_region(per_column * _COLUMNS)
    output.print_rows(_rows(facts, keys))
    output.print_rows(_fill_rows(facts, shares, per_column))
    return 0


def _keys_text(facts: dict[str, Any], estimate: int) -> str:
    """Return how many keys there are; the count in the file is behind while it is written."""
    count = output.count_text
    room = count(facts["capacity"]) + (", more are let in" if facts.get("overfill") else "")
    if facts["writer_open"]:
        stored = f"{count(facts['keys_added'])} at its last flush"
        return f"about {count(estimate)} of {room} (a writer has it open, or died; {stored})"
    keys = count(facts["keys_added"])
    if facts["keys_exact"]:
        return f"{keys} distinct, of {room}"
    if KINDS[facts["kind"]].can_remove:
        return f"{keys} as far as the counters tell, of {room}"
    if facts["state"] == "writable":
        return f"{keys} that set a bit, of {room}"
    return f"about {keys}, of {room}"  # as before, or those of a union, which are estimated


def _rows(facts: dict[str, Any], keys: str) -> list[tuple[str, object]]:
    count, rate = output.count_text, output.rate_text
    layout = f"layout {facts['layout']}, {count(facts['num_probes'], 'probe')}"
    rates = f"{rate(facts['expected_fpr'])} as it is; {facts['fpr']:g} when full"
    bits = f"{facts['bits_per_key']:.2f} a key, {100 * facts['fill_ratio']:.1f} % set"
    kind = KINDS[facts["kind"]]
    if not kind.can_add:
        rates = f"{rate(facts['expected_fpr'])}; asked for {facts['fpr']:g}"
    metadata = [f"{name}: {_value_text(value)}" for name, value in facts["metadata"].items()]
    return [
        ("file", f"{facts['path']}, {output.size_text(facts['file_bytes'])}, {facts['state']}"),
        ("kind", f"{facts['kind']}, {layout}"),
        ("keys", keys),
        ("fpr", rates),
        ("bits", f"{count(facts['num_bits'])}, {bits}"),
        *kind.fact_rows(facts),
        ("key form", facts["key_form"]),
        ("seed", facts["seed"]),
        ("created", facts["created"]),
        ("uuid", facts["uuid"]),
        ("format", f"version {facts['format_version']}"),
        ("engine", f"{facts['engine']} (of this program)"),
        *zip(["metadata", *[""] * len(metadata)], metadata or ["none"], strict=False),
    ]


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _fill_rows(
    facts: dict[str, Any], shares: Sequence[float], per_column: int
) -> list[tuple[str, object]]:
    columns = [min(shares[i : i + per_column]) for i in range(0, len(shares), per_column)]
    chart = output.fill_chart(columns)
    rows: list[tuple[str, object]] = [("fill", ""), *(("", row) for row in chart)]
    lowest = min(shares)
    least, most = f"{100 * lowest:.1f} %", f"{100 * max(shares):.1f} %"
    part = output.size_text(facts["payload_bytes"] / len(shares))
    rows.append(("", f"      stretches of {part}: {least} to {most} set"))
    if not KINDS[facts["kind"]].has_even_fill:
        return rows
    keys_in_stretch = facts["bits_set"] / facts["num_probes"] / len(shares)
    if lowest < facts["fill_ratio"] / 2 and keys_in_stretch >= _FEWEST_KEYS_TO_JUDGE:
        offset = facts["payload_bytes"] * shares.index(lowest) // len(shares)
        where = f"{least} set near byte {output.count_text(offset)} of the payload"
        rows.append(("hole", f"{where}: check it with 'mmbloom verify {facts['path']}'"))
    return rows

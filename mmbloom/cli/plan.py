"""``mmbloom plan``: what a filter would cost, before it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.cli import output
from mmbloom.cli.options import count, rate

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Compare the layouts for a number of keys and a false-positive rate: the size of
the file, bits a key, probes, and what one look-up touches. 'lines' are cache
lines, 'faults' are reads from the disk while the file is not in memory. A *
marks what 'mmbloom build' takes unless --layout says otherwise.
"""
EPILOG = """\
example:
  mmbloom plan --keys 1e9 --fpr 0.001
"""


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
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one row a layout."""
    from mmbloom.filters.sizing import LAYOUTS, plan

    capacity, fpr = arguments.capacity, arguments.fpr
    chosen = plan(capacity, fpr).layout
    rows = [_row(layout, capacity, fpr) for layout in LAYOUTS]
    if arguments.json:
        output.print_json({"keys": capacity, "fpr": fpr, "auto": chosen, "layouts": rows})
        return 0
    output.print_rows(
        [("keys", output.count_text(capacity)), ("fpr", output.rate_text(fpr)), ("", "")]
    )
    output.print_table(
        ("layout", "file", "bits/key", "probes", "lines", "faults", "fpr when full"),
        [
            (
                row["layout"] + (" *" if row["layout"] == chosen else ""),
                output.size_text(row["file_bytes"]),
                f"{row['bits_per_key']:,.2f}",
                str(row["num_probes"]),
                str(row["cache_lines"]),
                str(row["page_faults"]),
                f"{row['fpr']:.3g}",
            )
            for row in rows
        ],
    )
    return 0


def _row(layout: str, capacity: int, fpr: float) -> dict[str, Any]:
    from mmbloom.filters.sizing import model_fpr, plan
    from mmbloom.format.fields import CHUNK_BYTES, HEADER_BYTES

    geometry = plan(capacity, fpr, layout)
    lines, faults = {
        "classic": (geometry.num_probes, geometry.num_probes),
        "line": (1, 1),
        "page": (min(2, geometry.num_probes), 1),
    }[layout]
    num_checksums = -(-geometry.payload_bytes // CHUNK_BYTES)
    return {
        "layout": layout,
        "file_bytes": HEADER_BYTES + geometry.payload_bytes + 8 * num_checksums,
        "num_bits": geometry.num_bits,
        "bits_per_key": geometry.num_bits / capacity,
        "num_probes": geometry.num_probes,
        "cache_lines": lines,
        "page_faults": faults,
        "fpr": model_fpr(layout, geometry.num_bits, geometry.num_probes, capacity),
    }

"""``mmbloom plan``: what a filter would cost, before it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.cli import output
from mmbloom.cli.options import count

if TYPE_CHECKING:
    import argparse

NAME = "plan"
HELP = "compare layouts before building: size, probes, cost of a look-up"
DESCRIPTION = """\
Compare the layouts for a number of keys and a false-positive rate: the size of the file, bits a key, probes, and what a
look-up touches. 'lines' are cache lines, 'faults' are reads from the disk when the file is cold. * marks what --layout auto
takes.
"""
EPILOG = """\
example:
  mmbloom plan --keys 1e9 --fpr 0.001
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--keys", required=True, type=count, metavar="N", help="distinct keys, for instance 1e9")
    parser.add_argument("--fpr", required=True, type=float, metavar="P", help="false-positive rate")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one row a layout."""
    from mmbloom.filters.sizing import LAYOUTS, plan  # noqa: PLC0415 - loads only when used

    chosen = plan(arguments.keys, arguments.fpr).layout
    rows = [_row(layout, arguments.keys, arguments.fpr) for layout in LAYOUTS]
    if arguments.json:
        output.print_json({"auto": chosen, "layouts": rows})
        return 0
    output.print_table(
        ("layout", "file", "bits/key", "probes", "lines", "faults", "fpr when full"),
        [
            (
                row["layout"] + (" *" if row["layout"] == chosen else ""),
                output.size_text(row["file_bytes"]),
                f"{row['bits_per_key']:.2f}",
                str(row["num_probes"]),
                str(row["cache_lines"]),
                str(row["page_faults"]),
                f"{row['fpr']:.3g}",
            )
            for row in rows
        ],
    )
    return 0


def _row(layout: str, num_keys: int, fpr: float) -> dict[str, Any]:
    from mmbloom.filters.sizing import model_fpr, plan  # noqa: PLC0415 - loads only when used
    from mmbloom.format.fields import CHUNK_BYTES, HEADER_BYTES  # noqa: PLC0415 - loads only when used

    geometry = plan(num_keys, fpr, layout)
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
        "bits_per_key": geometry.num_bits / num_keys,
        "num_probes": geometry.num_probes,
        "cache_lines": lines,
        "page_faults": faults,
        "fpr": model_fpr(layout, geometry.num_bits, geometry.num_probes, num_keys),
    }

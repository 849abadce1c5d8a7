"""``mmbloom plan``: what a filter would cost, before it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.cli import output
from mmbloom.cli.options import count, rate

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Compare kinds and layouts for a number of keys and a false-positive rate: the
size of the file, 'bits' a key, and what one look-up touches. 'lines' are cache
lines, 'faults' are reads from the disk while the file is not in memory, 'build'
is the memory to build it at once, with less in several steps, 'fpr' the rate of
the full filter, 'later' what can be done with a filter of each kind; what
'mmbloom build' makes is sealed, but for counting filters, and a sealed file is
never added to. A * marks what 'mmbloom build' takes unless told
otherwise; with --use, what suits that use.
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
    from mmbloom.sizing.bloom import LAYOUTS, plan

    capacity, fpr = arguments.capacity, arguments.fpr
    auto = plan(capacity, fpr).layout
    rows = [_bloom_row(layout, capacity, fpr) for layout in LAYOUTS]
    rows += [_counting_row(capacity, fpr), *_fuse_rows(capacity, fpr)]
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
    kinds = "; ".join(f"{kind}: {what}" for kind, what in later.items())
    lines: list[tuple[str, object]] = [("", ""), ("later", kinds)]
    if why:
        lines.append((arguments.use, f"{chosen}: {why}"))
    output.print_rows(lines)
    return 0


def _recommended(use: str, auto: str, rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the layout for a use, and why."""
    if use == "shrinking":
        return "counters", "'mmbloom build --kind counting', from which keys can leave"
    fuse = [row for row in rows if row["kind"] == "fuse"]
    if use == "static" and fuse:
        best = min(fuse, key=lambda row: row["file_bytes"])
        bloom = next(row for row in rows if row["layout"] == auto)
        if best["file_bytes"] < bloom["file_bytes"]:
            share = 100 * (1 - best["file_bytes"] / bloom["file_bytes"])
            return best["layout"], f"{share:.0f} % smaller than {auto}, and it never changes"
    reasons = {
        "static": "the smallest that has this rate",
        "cold": "one read from the disk a look-up",
        "growing": "made by BloomFilter.create(), it takes keys until sealed",
    }
    return auto, reasons[use]


def _row(
    kind: str, layout: str, sizes: tuple[int, int], capacity: int, **costs: object
) -> dict[str, Any]:
    """Return a row; *sizes* are num_bits and payload_bytes."""
    from mmbloom.format.fields import CHUNK_BYTES, HEADER_BYTES

    num_bits, payload_bytes = sizes
    return {
        "layout": layout,
        "kind": kind,
        "file_bytes": HEADER_BYTES + payload_bytes + 8 * -(-payload_bytes // CHUNK_BYTES),
        "num_bits": num_bits,
        "bits_per_key": num_bits / capacity,
        **costs,
    }


def _bloom_row(layout: str, capacity: int, fpr: float) -> dict[str, Any]:
    from mmbloom.format.fields import HASH
    from mmbloom.sizing.bloom import model_fpr, plan

    geometry = plan(capacity, fpr, layout)
    hashes = HASH.size * capacity  # else in a spill file
    whole = geometry.payload_bytes if layout == "classic" else 0  # else pass after pass
    lines, faults = {
        "classic": (geometry.num_probes, geometry.num_probes),
        "line": (1, 1),
        "page": (min(2, geometry.num_probes), 1),
    }[layout]
    return _row(
        "bloom",
        layout,
        (geometry.num_bits, geometry.payload_bytes),
        capacity,
        num_probes=geometry.num_probes,
        cache_lines=lines,
        page_faults=faults,
        build_memory_bytes=hashes + whole,
        fpr=model_fpr(layout, geometry.num_bits, geometry.num_probes, capacity),
        later="add, unite",
    )


def _counting_row(capacity: int, fpr: float) -> dict[str, Any]:
    from mmbloom.format.fields import HASH
    from mmbloom.sizing.bloom import model_fpr, plan_counters

    geometry = plan_counters(capacity, fpr)
    return _row(
        "counting",
        "counters",
        (geometry.num_bits, geometry.payload_bytes),
        capacity,
        num_probes=geometry.num_probes,
        cache_lines=1,
        page_faults=1,
        build_memory_bytes=HASH.size * capacity,
        fpr=model_fpr("counters", geometry.num_bits, geometry.num_probes, capacity),
        later="add, remove, unite",
    )


def _fuse_rows(capacity: int, fpr: float) -> list[dict[str, Any]]:
    """Return the rows of the fuse layouts; none if the rate is below what they can have."""
    from mmbloom.building.fuse import in_memory_bytes
    from mmbloom.sizing.fuse import LAYOUTS, LEAST_FPR, plan_fuse

    shapes = {name: plan_fuse(capacity, fpr, name) for name in LAYOUTS if fpr >= LEAST_FPR}
    return [
        _row(
            "fuse",
            layout,
            (shape.num_bits, shape.num_bits // 8),
            capacity,
            num_probes=shape.arity,
            cache_lines=shape.arity,
            page_faults=shape.arity,
            build_memory_bytes=in_memory_bytes(shape, capacity),
            fpr=2.0**-shape.fingerprint_bits,
            later="nothing",
        )
        for layout, shape in shapes.items()
    ]

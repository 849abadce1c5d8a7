"""How commands print: numbers for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option --json."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def print_json(values: object) -> None:
    """Print *values* as JSON."""
    sys.stdout.write(json.dumps(values, ensure_ascii=False) + "\n")


def print_rows(rows: Iterable[tuple[str, object]]) -> None:
    """Print names and values in two columns."""
    pairs = [(name, str(value)) for name, value in rows]
    width = max(len(name) for name, _ in pairs)
    sys.stdout.writelines(f"{name:<{width}}  {value}\n" for name, value in pairs)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, the first column flush left, numbers flush right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def size_text(num_bytes: float) -> str:
    """Return a size as people write it, with three digits."""
    for unit in _UNITS[:-1]:
        if num_bytes < 1000:  # noqa: PLR2004 - three digits, then the next unit
            return f"{num_bytes:.0f} {unit}" if unit == "bytes" else f"{num_bytes:.3g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.4g} {_UNITS[-1]}"


def count_text(number: float) -> str:
    """Return a count with separators."""
    return f"{number:,.0f}"


def rate_text(rate: float) -> str:
    """Return a false-positive rate, as a share and as one in so many."""
    if rate <= 0:
        return "0"
    return f"{rate:.3g} (1 in {1 / rate:,.0f})" if rate < 0.5 else f"{rate:.3g}"  # noqa: PLR2004 - "1 in 2" at most


def fill_chart(shares: Sequence[float]) -> str:
    """Return one character a share, of a height from 0 to 1."""
    heights = " ▁▂▃▄▅▆▇█"
    return "".join(heights[min(8, round(8 * share)) if share > 0 else 0] for share in shares)


"""How commands print: numbers for people, JSON for programs, and a chart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mmbloom.cli import streams

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
# One row of a chart, from empty to full.
_BLOCKS, _ASCII_BLOCKS = " ▁▂▃▄▅▆▇█", " .:#"
_CHART_ROWS = 4


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option --json."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def print_json(values: object) -> None:
    """Print *values* as JSON, in ASCII: it is the same in every encoding."""
    streams.write(json.dumps(values) + "\n")


def print_rows(rows: Iterable[tuple[str, object]]) -> None:
    """Print names and values in two columns."""
    pairs = [(name, printable(str(value))) for name, value in rows]
    width = max(len(name) for name, _ in pairs)
    streams.write("".join(f"{name:<{width}}  {value}".rstrip() + "\n" for name, value in pairs))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, the first column flush left, numbers flush right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for first, *numbers in (head, *rows):
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        streams.write("  ".join([first.ljust(widths[0]), *cells]).rstrip() + "\n")


def printable(text: str) -> str:
    """Return *text* with an escape for whatever is no visible character.

    Metadata and names of files come from others: a terminal must not obey them.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def size_text(num_bytes: float) -> str:
    """Return a size as people write it, with three digits."""
    if num_bytes < 1000:  # noqa: PLR2004 - three digits, then the next unit
        return f"{num_bytes:.0f} {_UNITS[0]}"
    unit = 0
    while num_bytes >= 999.5 and unit < len(_UNITS) - 1:  # noqa: PLR2004 - as above, rounded
        num_bytes /= 1024
        unit += 1
    digits = 2 if num_bytes < 9.995 else 1 if num_bytes < 99.95 else 0  # noqa: PLR2004
    return f"{num_bytes:,.{digits}f} {_UNITS[unit]}"


def count_text(number: float, noun: str = "") -> str:
    """Return a count with separators, and what is counted: "1 key", "2,000 keys"."""
    plural = "" if not noun else f" {noun}" if number == 1 else f" {noun}s"
    return f"{number:,.0f}{plural}"


def rate_text(rate: float) -> str:
    """Return a false-positive rate, as a share and as 1 in N."""
    if not 0 < rate < 0.5:  # noqa: PLR2004 - from "1 in 2" on it says less than the share
        return f"{rate:.3g}"
    return f"{rate:.3g} (1 in {1 / rate:,.0f})"


def fill_chart(shares: Sequence[float]) -> list[str]:
    """Return the rows of a chart, top first: a column for each share of 0 to 1, and the scale.

    A share above 0 shows at least a trace: an empty column is empty.
    """
    glyphs = _BLOCKS if streams.can_show(_BLOCKS) else _ASCII_BLOCKS
    steps = len(glyphs) - 1
    heights = [-int(-share * steps * _CHART_ROWS // 1) for share in shares]
    rows = []
    for row in reversed(range(_CHART_ROWS)):
        scale = f"{100 * (row + 1) // _CHART_ROWS:>3} %"
        cells = (glyphs[min(max(height - steps * row, 0), steps)] for height in heights)
        rows.append(f"{scale} |{''.join(cells)}|")
    return rows

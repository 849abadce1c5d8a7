"""The result of a benchmark: tables, targets, and where mmbloom loses.

Owns the structure of a result, its Markdown and its record. Measures nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .timing import Spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Cell = float | str | Spread | None


class Row(NamedTuple):
    """One line of a table. *ours* marks mmbloom, so that its losses can be found."""

    label: str
    ours: bool
    cells: Mapping[str, Cell]


class Target(NamedTuple):
    """One target: what was promised, what was measured, and whether it was met."""

    promise: str
    measured: str
    met: bool


class Table(NamedTuple):
    """Rows under columns. In the columns named by *less_is_better* a smaller figure wins."""

    title: str
    note: str
    columns: Sequence[str]
    less_is_better: Sequence[str]
    rows: Sequence[Row]
    targets: Sequence[Target] = ()


def figure(cell: Cell) -> float | None:
    """Return the number of a cell, the median of a spread; None for text and empty cells."""
    if isinstance(cell, Spread):
        return cell.median
    return float(cell) if isinstance(cell, (int, float)) else None


def losses(table: Table) -> list[str]:
    """Return one sentence for each row of mmbloom and column in which another row is better."""
    found = []
    for row in table.rows:
        for column in table.less_is_better:
            mine = figure(row.cells.get(column)) if row.ours else None
            if mine is None:
                continue
            better = [
                f"{other.label} {number(theirs)}"
                for other in table.rows
                if not other.ours
                and (theirs := figure(other.cells.get(column))) is not None
                and theirs < mine
            ]
            if better:
                found.append(f"{column}: {row.label} {number(mine)} against {', '.join(better)}")
    return found


def number(value: float) -> str:
    """Format a figure with three significant digits, without an exponent for usual sizes."""
    if value == 0 or abs(value) < 1:
        return f"{value:.3g}"
    whole_digits = len(str(int(abs(value))))
    decimals = 0 if value == int(value) else max(0, 3 - whole_digits)
    return f"{value:.{decimals}f}"


def written(cell: Cell) -> str:
    """Format one cell of a Markdown table."""
    if cell is None:
        return "n/a"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Spread):
        if cell.samples == 1:
            return number(cell.median)
        return f"{number(cell.median)} ({number(cell.lower)} to {number(cell.upper)})"
    return number(cell)


def markdown(table: Table) -> str:
    """Return the table as Markdown, with its note, its targets and where mmbloom loses."""
    return "\n".join(_lines(table))


def _lines(table: Table) -> Iterator[str]:
    yield f"### {table.title}\n"
    if table.note:
        yield f"{table.note}\n"
    yield "| " + " | ".join(["", *table.columns]) + " |"
    yield "| --- " * (1 + len(table.columns)) + "|"
    for row in table.rows:
        cells = [written(row.cells.get(column)) for column in table.columns]
        yield "| " + " | ".join([row.label, *cells]) + " |"
    yield ""
    for target in table.targets:
        yield f"- {'met' if target.met else 'MISSED'}: {target.promise}; measured {target.measured}"
    if table.targets:
        yield ""
    yield f"Where mmbloom loses: {_where_mmbloom_loses(table)}\n"


def _where_mmbloom_loses(table: Table) -> str:
    if not any(row.ours for row in table.rows):
        return "it was not measured."
    if not table.less_is_better or all(row.ours for row in table.rows):
        return "there is no rival in this table; see the targets."
    lost = losses(table)
    return "; ".join(lost) + "." if lost else "in no row of this run."


def raw(tables: Sequence[Table]) -> dict[str, object]:
    """Return the tables as they are recorded, with every figure of a spread."""
    return {"tables": [_raw(table) for table in tables]}


def _raw(table: Table) -> dict[str, object]:
    return {
        "title": table.title,
        "note": table.note,
        "less_is_better": list(table.less_is_better),
        "rows": [
            {
                "label": row.label,
                "mmbloom": row.ours,
                **{
                    column: cell._asdict() if isinstance(cell, Spread) else cell
                    for column, cell in row.cells.items()
                },
            }
            for row in table.rows
        ],
        "targets": [target._asdict() for target in table.targets],
        "where_mmbloom_loses": losses(table),
    }

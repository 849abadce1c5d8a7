"""Judges a comparison by the targets of the project: ratios of figures of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .report import Target, figure, number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .report import Row


def compare_targets(rows: Sequence[Row], *, single_calls: bool) -> list[Target]:
    """Return the targets for these rows, without those where one side is missing."""
    ours = [row for row in rows if row.ours and "writable" not in row.label]
    peers = [row for row in rows if not row.ours and row.label != "set"]
    python_set = [row for row in rows if row.label == "set"]
    found: list[Target | None] = []
    if single_calls:
        found += [_times(ours, peers, [column], 1.2) for column in ("add", "hit", "miss")]
        found += [_times(ours, python_set, [column], 1.0) for column in ("add", "hit", "miss")]
        found.append(_times(ours, peers, ["bulk add"], 2.5))
    lookup = 4.0 if single_calls else 6.0
    found += [_times(ours, peers, [column], lookup) for column in ("bulk hit", "bulk miss")]
    return [target for target in found if target is not None]


def _times(
    ours: Sequence[Row], others: Sequence[Row], columns: Sequence[str], factor: float
) -> Target | None:
    """Compare the slowest of our rows with the best of the others."""
    mine = _extreme(max, ours, columns)
    best = _extreme(min, others, columns)
    if mine is None or best is None:
        return None
    (mine_ns, my_label), (best_ns, best_label) = mine, best
    return Target(
        f"{' and '.join(columns)}: at least {factor}x faster than {best_label}",
        f"{best_ns / mine_ns:.2f}x ({my_label} {number(mine_ns)}, {best_label} {number(best_ns)})",
        best_ns / mine_ns >= factor,
    )


def _extreme(
    choose: Callable[[list[tuple[float, str]]], tuple[float, str]],
    rows: Sequence[Row],
    columns: Sequence[str],
) -> tuple[float, str] | None:
    found = [
        (value, row.label)
        for row in rows
        for column in columns
        if (value := figure(row.cells.get(column))) is not None
    ]
    return choose(found) if found else None

"""Forecasts: the fpr that a filled payload will have when more keys are added.

``model`` has the formula for one line. Here it is averaged over the lines that there are, so a
payload that is fuller or emptier than its count says gets its own answer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mmbloom.engine import page_fill, popcount
from mmbloom.filters import measure
from mmbloom.format.fields import BLOCK_BITS as LINE_BITS
from mmbloom.sizing import model
from mmbloom.sizing.bloom import LINES_PER_HALF

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmbloom.sizing.bloom import Geometry

_LEADING_ZEROS = 30  # a forecast below 1e-30 is 0: no filter is made for less than 1e-12
# Of the keys of a page: 6 nodes integrate a polynomial of degree 11 exactly. From empty they are
# within 1e-5 of the model, and within 1e-9 at capacity (tests/filters/test_forecasts.py).
_NODES = 6


def fpr_after(geometry: Geometry, payload: memoryview, num_new_keys: int) -> float:
    """Return the expected fpr once *num_new_keys* more distinct keys are in; 0 of them is now.

    Exact for ideal probes, as ``model`` is; for `page` as far as _NODES says.
    Cost: one pass over the payload, `page` up to 6.
    """
    if num_new_keys == 0:
        return measure.expected_fpr(geometry, payload)
    if geometry.layout == "page":
        found = _page_fpr(geometry, payload, num_new_keys)
    elif geometry.layout == "classic":
        found = _chances(geometry, num_new_keys, [popcount(payload)])[0]
    else:
        found = _lines_fpr(geometry, payload, num_new_keys)
    return min(1.0, found) if found > 10.0**-_LEADING_ZEROS else 0.0


def _chances(geometry: Geometry, num_keys: int, fills: Sequence[int]) -> list[float]:
    chances = model.later_chances(
        line_bits=geometry.block_bits,
        num_probes=geometry.num_probes,
        num_lines=geometry.num_blocks,
        num_keys=num_keys,
        fills=fills,
        leading_zeros=_LEADING_ZEROS,
    )
    return [max(0.0, float(chance)) for chance in chances]


def _lines_fpr(geometry: Geometry, payload: memoryview, num_keys: int) -> float:
    lines = list(measure.fill_histogram(geometry, payload))
    geometry = geometry.flat
    lines[0] = geometry.num_blocks - sum(lines[1:])  # a payload may end with what is no line
    chances = _chances(geometry, num_keys, range(geometry.block_bits + 1))
    hits = (count * chance for count, chance in zip(lines, chances, strict=True))
    return math.fsum(hits) / geometry.num_blocks


def _page_fpr(geometry: Geometry, payload: memoryview, num_keys: int) -> float:
    """Return it for `page`: the halves of a page are independent once its new keys are given."""
    k = geometry.num_probes
    total = 0.0
    for on_page, weight in _binomial_nodes(num_keys, 1 / geometry.num_blocks):
        lower, upper = (_half_chances(probes, on_page) for probes in ((k + 1) // 2, k // 2))
        fills = (page_fill(block, lower, upper) for block in measure.blocks_of(payload))
        total += weight * math.fsum(fills)
    return total / geometry.num_blocks


def _half_chances(num_probes: int, on_page: float) -> list[float]:
    """Return, for a line with x = 0..512 bits set, the chance that all probes into it will hit."""
    if not num_probes:  # k = 1: nothing is tested in the upper half
        return [1.0] * (LINE_BITS + 1)
    if on_page <= 0:
        return [(x / LINE_BITS) ** num_probes for x in range(LINE_BITS + 1)]
    chances = model.later_chances(
        line_bits=LINE_BITS,
        num_probes=num_probes,
        num_lines=LINES_PER_HALF,
        num_keys=on_page,
        fills=range(LINE_BITS + 1),
        leading_zeros=_LEADING_ZEROS,
    )
    return [max(0.0, float(chance)) for chance in chances]


def _binomial_nodes(n: int, p: float) -> Iterator[tuple[float, float]]:
    """Yield the nodes and weights of a Gauss quadrature over a binomial count.

    The eigenvalues of the recurrence of its orthogonal polynomials, Krawtchouk's, and the squares
    of the first components of its eigenvectors. Source: Golub and Welsch, 1969.
    """
    import numpy as np

    size = min(_NODES, n + 1)
    i = np.arange(size)
    diagonal = p * (n - i) + (1 - p) * i
    beside = np.sqrt(i[1:] * (n - i[1:] + 1) * p * (1 - p))
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, -1) + np.diag(beside, 1))
    yield from zip(values.tolist(), (vectors[0] ** 2).tolist(), strict=True)

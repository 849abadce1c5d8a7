"""Forecasts: the rate that a filled payload will have when more keys are added.

``sizing.model`` has the formula for one line. Here it is averaged over the lines of a payload, so a
payload that is fuller or emptier than its count says gets its own answer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mmbloom.engine import page_fill
from mmbloom.format.fields import LINE_BITS
from mmbloom.sizing import model
from mmbloom.sizing.bloom import LINES_PER_HALF

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmbloom.sizing.bloom import BloomGeometry

_LEADING_ZEROS = 30  # a forecast below 1e-30 is 0: no filter is made for less than 1e-12
# Over the number of keys of a page: 6 nodes integrate a polynomial of degree 11 exactly. From empty
# they are within 1e-5 of the model, at capacity within 1e-9 (tests/filters/test_forecasts.py).
_NODES = 6


def chances(geometry: BloomGeometry, num_keys: int, fills: Sequence[int]) -> list[float]:
    """Return, for lines with each of *fills* places set, the chance of "maybe" after more keys.

    Exact for ideal probes, as ``model`` is.
    """
    found = model.later_chances(
        line_bits=geometry.block_bits,
        num_probes=geometry.num_probes,
        num_lines=geometry.num_blocks,
        num_keys=num_keys,
        fills=fills,
        leading_zeros=_LEADING_ZEROS,
    )
    return [max(0.0, float(chance)) for chance in found]


def lines_fpr(geometry: BloomGeometry, lines: list[int], num_keys: int) -> float:
    """Return the mean over lines, *lines*[x] of which have x places set."""
    # A payload may end with padding, which is no line.
    lines[0] = geometry.num_blocks - sum(lines[1:])
    each = chances(geometry, num_keys, range(geometry.block_bits + 1))
    hits = (count * chance for count, chance in zip(lines, each, strict=True))
    return math.fsum(hits) / geometry.num_blocks


def page_fpr(geometry: BloomGeometry, blocks: Sequence[memoryview], num_keys: int) -> float:
    """Return the mean over pages, whose halves are independent once the page's new keys are given.

    Cost: up to 6 passes over the payload.
    """
    k = geometry.num_probes
    total = 0.0
    for on_page, weight in _binomial_nodes(num_keys, 1 / geometry.num_blocks):
        lower, upper = (_half_chances(probes, on_page) for probes in ((k + 1) // 2, k // 2))
        total += weight * math.fsum(page_fill(block, lower, upper) for block in blocks)
    return total / geometry.num_blocks


def rounded(chance: float) -> float:
    """Return a forecast as a rate: at most 1, and 0 where it is below what is computed."""
    return min(1.0, chance) if chance > 10.0**-_LEADING_ZEROS else 0.0


def _half_chances(num_probes: int, on_page: float) -> list[float]:
    """Return, for a line with x = 0..512 bits set, the chance that all probes into it will hit."""
    if not num_probes:  # k = 1: nothing is tested in the upper half
        return [1.0] * (LINE_BITS + 1)
    if on_page <= 0:
        return [(x / LINE_BITS) ** num_probes for x in range(LINE_BITS + 1)]
    found = model.later_chances(
        line_bits=LINE_BITS,
        num_probes=num_probes,
        num_lines=LINES_PER_HALF,
        num_keys=on_page,
        fills=range(LINE_BITS + 1),
        leading_zeros=_LEADING_ZEROS,
    )
    return [max(0.0, float(chance)) for chance in found]


def _binomial_nodes(n: int, p: float) -> Iterator[tuple[float, float]]:
    """Yield the nodes and weights of a Gauss quadrature over a binomial count.

    The nodes are the eigenvalues of the recurrence of its orthogonal polynomials (Krawtchouk's),
    the weights the squares of the first components of its eigenvectors. Source: Golub and Welsch,
    1969.
    """
    import numpy as np

    size = min(_NODES, n + 1)
    i = np.arange(size)
    diagonal = p * (n - i) + (1 - p) * i
    beside = np.sqrt(i[1:] * (n - i[1:] + 1) * p * (1 - p))
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, -1) + np.diag(beside, 1))
    yield from zip(values.tolist(), (vectors[0] ** 2).tolist(), strict=True)

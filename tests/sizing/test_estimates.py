"""What a payload says about itself: its keys, and its fpr, from counts of set bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mmbloom.errors import ParameterError
from mmbloom.sizing.bloom import BloomGeometry, model_fpr
from mmbloom.sizing.estimates import estimate_keys, fpr_from_line_histogram, power_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.bool_]


def fill(geometry: BloomGeometry, num_keys: int, rng: np.random.Generator) -> Bits:
    """Return the bits, as bool[num_bits], that *num_keys* keys with ideal probes set."""
    is_set = np.zeros(geometry.num_bits, dtype=bool)
    starts = rng.integers(geometry.num_blocks, size=num_keys) * geometry.block_bits
    if geometry.layout == "page":
        halves = rng.integers(32, size=(2, num_keys)) * 512 + [[0], [16384]]
    for i in range(geometry.num_probes):
        if geometry.layout == "page":
            places = starts + halves[i % 2] + rng.integers(512, size=num_keys)
        else:
            places = starts + rng.integers(geometry.block_bits, size=num_keys)
        is_set[places] = True
    return is_set


def count(geometry: BloomGeometry, is_set: Bits) -> tuple[int, ...]:
    """Return the set bits as the engine counts them: of all, or of each half of the pages."""
    if geometry.layout == "page":
        return tuple(int(n) for n in is_set.reshape(-1, 2, 16384).sum(axis=(0, 2)))
    return (int(is_set.sum()),)


# ---- how many keys ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("geometry", "num_keys"),
    [
        pytest.param(BloomGeometry("classic", 19_456, 6), 2000, id="classic"),
        pytest.param(BloomGeometry("line", 19_968, 6), 2000, id="line"),
        pytest.param(BloomGeometry("line", 19_968, 6), 100, id="line-nearly-empty"),
        pytest.param(BloomGeometry("line", 19_968, 6), 8000, id="line-four-times-over"),
        pytest.param(BloomGeometry("line", 19_968, 1), 2000, id="line-one-probe"),
        pytest.param(BloomGeometry("page", 32_768, 6), 2000, id="page"),
        pytest.param(BloomGeometry("page", 32_768, 7), 2000, id="page-odd-probes"),
        pytest.param(BloomGeometry("page", 65_536, 3), 20_000, id="page-over-full"),
        pytest.param(BloomGeometry("page", 65_536, 1), 2000, id="page-one-probe"),
    ],
)
def test_keys_are_estimated_without_bias(geometry: BloomGeometry, num_keys: int) -> None:
    """The mean of 50 payloads is within 4 of its sd of the truth; a payload is within 2 %."""
    rng = np.random.default_rng(11)
    found = [
        estimate_keys(geometry, count(geometry, fill(geometry, num_keys, rng))) for _ in range(50)
    ]

    sd = np.std(found)
    assert abs(np.mean(found) - num_keys) <= 4 * sd / math.sqrt(50) + 0.001 * num_keys
    assert sd <= 0.02 * num_keys


@pytest.mark.parametrize("layout", ["classic", "line", "page"])
@pytest.mark.parametrize("num_probes", [2, 9, 16])
@pytest.mark.parametrize("keys_per_bit", [1e-9, 0.01, 0.1, 0.5])
def test_the_expected_fill_gives_back_the_keys(
    layout: str, num_probes: int, keys_per_bit: float
) -> None:
    """For 2^45 bits, where counts need 64: the mean zero bits of n keys are read as n keys."""
    geometry = BloomGeometry(layout, 2**45, num_probes)
    num_keys = 2**45 * keys_per_bit
    halves = (num_probes - num_probes // 2, num_probes // 2) if layout == "page" else (num_probes,)
    num_lines = {"classic": 1, "line": 2**36, "page": 2**35}[layout]
    line_bits = 2**45 if layout == "classic" else 512
    set_bits = []
    for probes in halves:
        met = -math.expm1(probes * math.log1p(-1 / line_bits)) / num_lines
        set_bits.append(round(2**45 / len(halves) * -math.expm1(num_keys * math.log1p(-met))))

    assert estimate_keys(geometry, set_bits) == pytest.approx(num_keys, rel=1e-4)


def test_one_probe_is_the_classic_answer() -> None:
    """With k = 1 on a single line there is nothing to correct: n = ln z / ln(1 - 1/m)."""
    geometry = BloomGeometry("classic", 1000, 1)

    assert estimate_keys(geometry, (500,)) == pytest.approx(math.log(0.5) / math.log(0.999))


GEOMETRIES = [
    pytest.param(BloomGeometry("classic", 1, 1), id="classic-one-bit"),
    pytest.param(BloomGeometry("classic", 1000, 7), id="classic"),
    pytest.param(BloomGeometry("classic", 2**53, 64), id="classic-largest"),
    pytest.param(BloomGeometry("line", 512, 16), id="one-line"),
    pytest.param(BloomGeometry("line", 512 * 999, 6), id="line"),
    pytest.param(BloomGeometry("page", 32_768, 1), id="page-one-probe"),
    pytest.param(BloomGeometry("page", 32_768 * 9, 2), id="page-two-probes"),
    pytest.param(BloomGeometry("page", 32_768 * 9, 3), id="page-three-probes"),
]


def at_fill(geometry: BloomGeometry, ratio: float) -> tuple[int, ...]:
    """Set bits at a fill of *ratio*, rounded up; a page with one probe uses lower halves only."""
    if geometry.layout != "page":
        return (math.ceil(geometry.num_bits * ratio),)
    half = math.ceil(geometry.num_bits // 2 * ratio)
    return (half, half if geometry.num_probes > 1 else 0)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_every_fill_has_an_estimate_that_grows_with_it(geometry: BloomGeometry) -> None:
    """From nothing to saturated: 0, then at least 1, never less than before, always finite."""
    fills = [at_fill(geometry, ratio) for ratio in (0.0, 1e-9, 0.01, 0.5, 0.99, 0.999999, 1.0)]

    found = [estimate_keys(geometry, set_bits) for set_bits in fills]

    assert found[0] == 0.0
    assert found[1] >= 1.0
    assert found == sorted(found)
    assert math.isfinite(found[-1])


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_saturated_payload_says_at_least_what_one_zero_bit_said(geometry: BloomGeometry) -> None:
    """With no zero bit left more cannot be told: the answer is a floor, not an error."""
    full = at_fill(geometry, 1.0)
    one_left = (full[0] - 1, *full[1:])

    assert estimate_keys(geometry, full) >= estimate_keys(geometry, one_left)


def test_a_union_is_estimated_by_the_same_call() -> None:
    """Keys in both are counted once: 3000 and 3000 with 1000 in common are 5000, within 2 %."""
    geometry = BloomGeometry("line", 512 * 100, 6)
    sets = [fill(geometry, n, np.random.default_rng(i)) for i, n in enumerate((2000, 1000, 2000))]

    union = (sets[0] | sets[1]) | (sets[1] | sets[2])

    assert estimate_keys(geometry, count(geometry, union)) == pytest.approx(5000, rel=0.02)


# ---- which fpr ----------------------------------------------------------------------------------


def line_histogram(is_set: Bits) -> list[int]:
    """Count lines by their set bits."""
    padded = np.zeros(-(-is_set.size // 512) * 512, dtype=bool)
    padded[: is_set.size] = is_set
    return [int(n) for n in np.bincount(padded.reshape(-1, 512).sum(axis=1), minlength=513)]


def test_the_fpr_of_line_is_the_mean_over_its_lines() -> None:
    """A full line among empty ones: an absent key that meets it passes, all others fail."""
    is_set = np.zeros(512 * 4, dtype=bool)
    is_set[512:1024] = True
    is_set[1024 : 1024 + 256] = True

    found = fpr_from_line_histogram(BloomGeometry("line", 2048, 3), line_histogram(is_set))

    assert found == (1 + 0.5**3) / 4


def test_the_fpr_of_classic_is_that_of_its_fill() -> None:
    """Probes go anywhere: only the total counts, and padding is no bit."""
    is_set = np.zeros(1000, dtype=bool)
    is_set[:500] = True

    found = fpr_from_line_histogram(BloomGeometry("classic", 1000, 3), line_histogram(is_set))

    assert found == 0.5**3


def test_the_fpr_of_page_is_not_in_the_histogram() -> None:
    """It depends on which lines share a page, so the histogram is refused."""
    with pytest.raises(
        ParameterError, match="layout: expected any layout except page, found 'page'"
    ):
        fpr_from_line_histogram(BloomGeometry("page", 32_768, 6), [0] * 513)


@pytest.mark.parametrize(
    ("geometry", "num_keys"),
    [
        pytest.param(BloomGeometry("line", 512 * 2000, 6), 100_000, id="line"),
        pytest.param(BloomGeometry("line", 512 * 2000, 12), 200_000, id="line-over-full"),
        pytest.param(BloomGeometry("classic", 512 * 2000, 7), 100_000, id="classic"),
    ],
)
def test_the_fpr_of_a_payload_is_near_that_of_the_model(
    geometry: BloomGeometry, num_keys: int
) -> None:
    """One payload of 2000 lines; lines differ, so its sd is some 2 %; 10 % allowed."""
    is_set = fill(geometry, num_keys, np.random.default_rng(5))

    found = fpr_from_line_histogram(geometry, line_histogram(is_set))

    assert found == pytest.approx(model_fpr(*geometry, num_keys), rel=0.1)


@pytest.mark.parametrize("num_probes", [1, 2, 8, 16])
def test_powers_are_made_by_repeated_multiplication(num_probes: int) -> None:
    """The same 513 doubles everywhere: pow() differs between libraries in the last bit."""
    table = power_table(num_probes)

    expected = np.ones(513)
    for _ in range(num_probes):
        expected *= np.arange(513) / 512
    assert table == expected.tolist()
    assert table[0] == 0.0
    assert table[512] == 1.0


def test_no_probe_passes_always() -> None:
    """The upper half of a page with one probe is never in the way, not even when it is empty."""
    assert power_table(0) == [1.0] * 513

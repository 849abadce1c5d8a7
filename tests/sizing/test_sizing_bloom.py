"""Sizing as a specification: what plan() promises, and why its model can be believed."""

from __future__ import annotations

import decimal
import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.sizing import model, search
from mmbloom.sizing.bloom import (
    LAYOUT_IDS,
    LAYOUTS,
    BloomGeometry,
    check_capacity,
    check_fpr,
    check_layout,
    model_fpr,
    plan,
    plan_counters,
    planned_fpr,
    twin_fpr,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Indexes = NDArray[np.int64]
    Reals = NDArray[np.float64]

MAX_PROBES = {"classic": 64, "line": 16, "page": 32}
STEP_BITS = {"classic": 512, "line": 512, "page": 32768}


# ---- the model against independent truths -------------------------------------------------------


def exact_chance(
    line_bits: int, probes: tuple[int, int], choices: int, num_blocks: int, num_keys: int
) -> Fraction:
    """Count all outcomes: every place of every key, every throw, every test of a query at block 0.

    A key is (block, line of the one side, line of the other, throws to each). The query is at line
    0 of both sides, which loses nothing: all places are alike.
    """
    sides = [itertools.product(range(line_bits), repeat=count) for count in probes]
    throws = list(itertools.product(*sides))
    places = list(itertools.product(range(num_blocks), range(choices), range(choices)))
    passes = outcomes = 0
    for keys in itertools.product(itertools.product(places, throws), repeat=num_keys):
        set_bits: list[set[int]] = [set(), set()]
        for (block, *lines), key_throws in keys:
            for side in (0, 1):
                if block == 0 and lines[side] == 0:
                    set_bits[side] |= set(key_throws[side])
        for tests in throws:
            outcomes += 1
            passes += set_bits[0] >= set(tests[0]) and set_bits[1] >= set(tests[1])
    return Fraction(passes, outcomes)


@pytest.mark.parametrize(
    ("line_bits", "probes", "choices", "num_blocks", "num_keys"),
    [
        pytest.param(1, (1, 0), 1, 1, 1, id="one-bit"),
        pytest.param(1, (3, 0), 1, 1, 2, id="more-probes-than-bits"),
        pytest.param(4, (2, 0), 1, 1, 2, id="classic"),
        pytest.param(3, (3, 0), 1, 1, 2, id="classic-3-probes"),
        pytest.param(5, (1, 0), 1, 1, 5, id="classic-1-probe"),
        pytest.param(3, (2, 0), 1, 2, 2, id="two-lines"),
        pytest.param(2, (2, 0), 1, 3, 3, id="three-lines-3-keys"),
        pytest.param(2, (1, 1), 2, 1, 2, id="one-page"),
        pytest.param(2, (1, 1), 2, 2, 2, id="two-pages"),
        pytest.param(2, (2, 1), 2, 1, 2, id="one-page-odd-probes"),
        pytest.param(2, (1, 0), 2, 2, 2, id="page-with-1-probe"),
    ],
)
def test_the_model_is_the_share_of_all_outcomes(
    line_bits: int, probes: tuple[int, int], choices: int, num_blocks: int, num_keys: int
) -> None:
    """Tiny cases are counted out completely in fractions; the formula gives the same number."""
    counted = exact_chance(line_bits, probes, choices, num_blocks, num_keys)

    found = model.chance(
        line_bits=line_bits,
        probes=probes,
        choices=choices,
        num_blocks=num_blocks,
        num_keys=num_keys,
        leading_zeros=14,
    )

    assert float(found) == pytest.approx(float(counted), rel=1e-15)


def pass_chances(thrown: int, max_load: int) -> list[float]:
    """Chance that *thrown* tests pass on a 512-bit line of 0, 1, ... keys that threw as many each.

    Follows the distribution of the number of set bits throw by throw: positive terms only.
    """
    num_set = np.arange(513) / 512
    share = np.zeros(513)
    share[0] = 1.0
    chances = [0.0]
    for _ in range(max_load):
        for _ in range(thrown):
            stay, move = share * num_set, share * (1 - num_set)
            share = stay
            share[1:] += move[:-1]
        chances.append(float(share @ num_set**thrown))
    return chances


def binomial(count: int, chance: float, largest: int) -> Reals:
    """P(0..largest of *count*): ratios of neighbours, made to sum to 1; *largest* is far out."""
    before = np.arange(min(largest, count), dtype=float)
    logs = np.cumsum(np.log((count - before) / (before + 1) * (chance / (1 - chance))))
    terms = np.exp(np.concatenate([[0.0], logs]) - max(0.0, logs.max()))
    return np.asarray(terms / terms.sum())


def mean(weights: Reals, values: list[float]) -> float:
    """Sum of products, as far as the shorter goes."""
    return math.fsum(w * v for w, v in zip(weights, values, strict=False))


@pytest.mark.parametrize(
    ("num_lines", "num_probes", "num_keys"),
    [
        pytest.param(1, 5, 12, id="one-line"),
        pytest.param(9, 16, 60, id="few-keys-many-probes"),
        pytest.param(1000, 6, 51_000, id="ten-bits-a-key"),
        pytest.param(1000, 1, 300_000, id="overfull"),
        pytest.param(10**9, 14, 17 * 10**9, id="thirty-bits-a-key"),
    ],
)
def test_line_is_the_mean_over_loads_of_a_line(
    num_lines: int, num_probes: int, num_keys: int
) -> None:
    """A sum without cancellation, over how many keys share the line, gives the same fpr."""
    load = num_keys / num_lines
    most = int(load + 14 * math.sqrt(load) + 14)
    if num_lines == 1:
        expected = pass_chances(num_probes, num_keys)[-1]
    else:
        expected = mean(binomial(num_keys, 1 / num_lines, most), pass_chances(num_probes, most))

    found = model_fpr("line", 512 * num_lines, num_probes, num_keys)

    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("num_pages", "num_probes", "num_keys"),
    [
        pytest.param(3, 7, 900, id="few-pages-odd-probes"),
        pytest.param(1000, 16, 1_300_000, id="25-bits-a-key"),
    ],
)
def test_page_is_the_mean_over_loads_of_a_page_and_its_two_lines(
    num_pages: int, num_probes: int, num_keys: int
) -> None:
    """Given the keys of a page its lines are independent; the load of the page is not fixed."""
    load = num_keys / num_pages
    most = int(load + 10 * math.sqrt(load))
    counts = (num_probes - num_probes // 2, num_probes // 2)
    by_line_load = [pass_chances(count, most // 32 + 90) for count in counts]
    by_page_load = [0.0] * (most + 1)
    for keys in range(max(0, int(load - 10 * math.sqrt(load))), most + 1):
        loads = binomial(keys, 1 / 32, most // 32 + 90)
        by_page_load[keys] = math.prod(mean(loads, chances) for chances in by_line_load)
    expected = mean(binomial(num_keys, 1 / num_pages, most), by_page_load)

    found = model_fpr("page", 32768 * num_pages, num_probes, num_keys)

    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("layout", "num_bits", "num_probes", "num_keys"),
    [
        pytest.param("classic", 300, 3, 60, id="classic"),
        pytest.param("line", 512 * 3, 4, 200, id="line"),
        pytest.param("page", 32768 * 2, 5, 9000, id="page"),
        pytest.param("narrow", 128 * 5, 3, 100, id="narrow"),
        pytest.param("counters", 512 * 5, 3, 100, id="counters"),
    ],
)
def test_the_model_is_what_ideal_probes_do(
    layout: str, num_bits: int, num_probes: int, num_keys: int
) -> None:
    """20 000 fresh filters, one query each: hits are binomial, sd sqrt(20000 p (1 - p)), 4 allowed.

    Only the lines of the query are filled; which keys fall there is drawn for every key.
    """
    trials, rng = 20_000, np.random.default_rng(2)
    geometry = BloomGeometry(layout, num_bits, num_probes).flat
    line_bits = 512 if layout == "page" else geometry.block_bits
    counts = (num_probes - num_probes // 2, num_probes // 2) if layout == "page" else (num_probes,)
    in_block = rng.binomial(num_keys, 1 / geometry.num_blocks, size=trials)
    passed = np.ones(trials, dtype=bool)
    for count in counts:
        loads = rng.binomial(in_block, 1 / 32) if layout == "page" else in_block
        trial_of_key = np.repeat(np.arange(trials), loads)
        is_set = np.zeros((trials, line_bits), dtype=bool)
        for _ in range(count):
            is_set[trial_of_key, rng.integers(line_bits, size=trial_of_key.size)] = True
        for _ in range(count):
            passed &= is_set[np.arange(trials), rng.integers(line_bits, size=trials)]

    expected = model_fpr(layout, num_bits, num_probes, num_keys)

    assert 0.02 < expected < 0.98
    sd = math.sqrt(trials * expected * (1 - expected))
    assert abs(passed.sum() - trials * expected) <= 4 * sd


@pytest.mark.parametrize(
    ("layout", "num_bits", "num_probes", "bits_per_key"),
    [
        pytest.param("classic", 2**45, 64, 92, id="classic-64-probes-2^45"),
        pytest.param("classic", 2**53, 40, 58, id="classic-2^53"),
        pytest.param("classic", 1000, 64, 90, id="classic-64-probes-tiny"),
        pytest.param("line", 2**50, 16, 4, id="line-crowded"),
        pytest.param("line", 2**50, 16, 200, id="line-sparse"),
        pytest.param("page", 2**50, 32, 79, id="page-32-probes"),
        pytest.param("page", 2**50, 31, 40, id="page-31-probes"),
    ],
)
def test_cancellation_leaves_seventeen_digits(
    layout: str, num_bits: int, num_probes: int, bits_per_key: int
) -> None:
    """The sum loses up to 50 digits; with 300 digits more the float is still the same."""
    num_keys = num_bits // bits_per_key
    halves = (num_probes - num_probes // 2, num_probes // 2)
    precise = model.chance(
        line_bits=num_bits if layout == "classic" else 512,
        probes=halves if layout == "page" else (num_probes, 0),
        choices=32 if layout == "page" else 1,
        num_blocks=BloomGeometry(layout, num_bits, num_probes).num_blocks,
        num_keys=num_keys,
        leading_zeros=320,
    )

    assert model_fpr(layout, num_bits, num_probes, num_keys) == pytest.approx(
        float(precise), rel=4e-16
    )


@pytest.mark.parametrize(
    ("num_bits", "num_probes", "num_keys", "expected"),
    [
        pytest.param(512, 16, 0, 0.0, id="empty"),
        pytest.param(2**40, 3, 1, 3.0**3 / 2.0**120 * (2 / 9), id="one-key-3-probes"),
        pytest.param(2**53, 64, 1, 0.0, id="smaller-than-any-float"),
        pytest.param(64, 2, 10**6, 1.0, id="saturated"),
    ],
)
def test_the_model_is_a_chance_at_both_ends(
    num_bits: int, num_probes: int, num_keys: int, expected: float
) -> None:
    """An empty filter says no; tiny chances are themselves down to 1e-300; the most is 1."""
    found = model_fpr("classic", num_bits, num_probes, num_keys)

    assert 0.0 <= found <= 1.0
    if expected in (0.0, 1.0):
        assert found == expected
    else:
        assert found == pytest.approx(27 / 2.0**120, rel=1e-6)


def test_a_foreign_decimal_context_changes_nothing() -> None:
    """A caller that trades in money may trap inexact results: that is not our arithmetic."""
    expected = plan(12_345, 1e-4, "page")
    model._terms.cache_clear()

    traps = [decimal.Inexact, decimal.Rounded]
    with decimal.localcontext(decimal.Context(prec=3, Emax=9, Emin=-9, traps=traps)):
        assert plan(12_345, 1e-4, "page") == expected


# ---- what plan() promises -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "fpr", "bits_per_key", "num_probes"),
    [
        pytest.param("classic", 1e-2, 9.593, 7, id="classic-1e-2"),
        pytest.param("classic", 1e-3, 14.378, 10, id="classic-1e-3"),
        pytest.param("classic", 1e-4, 19.173, 13, id="classic-1e-4"),
        pytest.param("classic", 1e-5, 23.967, 17, id="classic-1e-5"),
        pytest.param("line", 1e-2, 9.918, 6, id="line-1e-2"),
        pytest.param("line", 1e-3, 15.546, 9, id="line-1e-3"),
        pytest.param("line", 1e-4, 22.030, 12, id="line-1e-4"),
        pytest.param("line", 1e-5, 29.670, 14, id="line-1e-5"),
        pytest.param("page", 1e-2, 9.675, 6, id="page-1e-2"),
        pytest.param("page", 1e-3, 14.638, 10, id="page-1e-3"),
        pytest.param("page", 1e-4, 19.861, 12, id="page-1e-4"),
        pytest.param("page", 1e-5, 25.325, 16, id="page-1e-5"),
    ],
)
def test_bits_per_key_are_those_of_the_table(
    layout: str, fpr: float, bits_per_key: float, num_probes: int
) -> None:
    """What the documentation says a key costs, for a thousand million keys."""
    geometry = plan(10**9, fpr, layout)

    assert geometry.num_bits / 10**9 == pytest.approx(bits_per_key, abs=6e-4)
    assert geometry.num_probes == num_probes


@pytest.mark.parametrize(
    ("fpr", "bits_per_key", "num_probes"),
    [(0.1, 19.678, 3), (1e-2, 43.389, 6), (1e-3, 76.047, 8), (1e-4, 123.777, 10)],
)
def test_a_key_of_counters_costs_four_times_a_line_of_128_bits(
    fpr: float, bits_per_key: float, num_probes: int
) -> None:
    """As the documentation says; what they stand for has a quarter of it."""
    geometry = plan_counters(10**9, fpr)

    assert geometry.num_bits / 10**9 == pytest.approx(bits_per_key, abs=6e-4)
    assert geometry.num_probes == num_probes
    assert geometry.flat == BloomGeometry("narrow", geometry.num_bits // 4, num_probes)
    assert geometry.flat.payload_bytes == pytest.approx(geometry.payload_bytes / 4, rel=1e-6)


@pytest.mark.parametrize("capacity", [1, 3, 100, 10_000, 10**9])
@pytest.mark.parametrize("fpr", [0.9, 0.3, 1e-2, 1e-4, 1e-8, 1e-12])
def test_counters_are_as_few_as_keep_the_rate(capacity: int, fpr: float) -> None:
    """One line less is too small, whatever the number of probes."""
    geometry = plan_counters(capacity, fpr)

    assert geometry.validate().layout == "counters"
    assert planned_fpr(geometry, capacity) <= fpr
    smaller = geometry.num_bits - 512
    if smaller:
        least = min(
            planned_fpr(BloomGeometry("counters", smaller, k), capacity) for k in range(1, 17)
        )
        assert least > fpr


def test_ten_billion_keys_at_1e_10_take_sixty_gigabytes() -> None:
    """An overflow of 32 bits once made 350 MB of this."""
    geometry = plan(10**10, 1e-10, "classic")

    assert geometry.payload_bytes == pytest.approx(59.9e9, rel=0.01)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("capacity", "fpr"),
    [
        pytest.param(1, 0.999, id="one-key-at-0.999"),
        pytest.param(1, 1e-6, id="one-key-at-1e-6"),
        pytest.param(10, 1e-3, id="ten-keys"),
        pytest.param(777, 1e-7, id="777-keys"),
        pytest.param(20_000, 0.3, id="two-bits-a-key"),
        pytest.param(123_457, 1e-12, id="least-fpr"),
        pytest.param(2**40, 0.01, id="2^40-keys"),
        pytest.param(2**47, 0.25, id="2^47-keys"),
    ],
)
def test_no_filter_of_fewer_bits_would_do(layout: str, capacity: int, fpr: float) -> None:
    """The plan keeps its fpr; one step smaller, no number of probes does; fewer probes do not."""
    geometry = plan(capacity, fpr, layout)

    assert planned_fpr(geometry, capacity) <= fpr
    smaller = geometry.num_bits - STEP_BITS[layout]
    if smaller:
        for num_probes in range(1, MAX_PROBES[layout] + 1):
            assert planned_fpr(BloomGeometry(layout, smaller, num_probes), capacity) > fpr
    for num_probes in range(1, geometry.num_probes):
        assert planned_fpr(geometry._replace(num_probes=num_probes), capacity) > fpr


@pytest.mark.parametrize("least", [1, 2, 17, 10**6, 2**44 + 1])
@pytest.mark.parametrize("guess", [1, 1000, 10**9])
@pytest.mark.parametrize("slope", [0.001, 1.0, 30.0])
def test_the_search_ends_at_the_least_size_even_without_a_slope_to_follow(
    least: int, guess: int, slope: float
) -> None:
    """A cliff tells a secant nothing: after 12 rounds the search doubles and halves."""
    tried: list[int] = []

    def excess(size: int) -> float:
        tried.append(size)
        return -1.0 if size >= least else 1.0

    assert search.least_passing(excess, guess, slope) == least
    assert len(tried) < 110


@pytest.mark.parametrize("layout", LAYOUTS)
def test_twice_the_keys_never_take_fewer_bytes(layout: str) -> None:
    """Strictly more bytes at every doubling from 2^20 to 2^45: nothing wraps."""
    sizes = [plan(2**power, 0.01, layout).payload_bytes for power in range(20, 46)]

    assert all(less < more for less, more in itertools.pairwise(sizes))
    assert sizes[-1] / sizes[0] == pytest.approx(2**25, rel=0.01)


@pytest.mark.parametrize("layout", [*LAYOUTS, "auto"])
def test_one_key_more_never_takes_fewer_bits(layout: str) -> None:
    """Monotone where steps are coarse: 1 to 40 keys, and around a change of layout."""
    capacities = [*range(1, 40), *range(3010, 3020), *range(9995, 10_005)]

    sizes = [plan(capacity, 1e-4, layout).num_bits for capacity in capacities]

    assert sizes == sorted(sizes)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("capacity", [200, 10**6])
def test_a_stricter_fpr_never_takes_fewer_bits(layout: str, capacity: int) -> None:
    """Monotone in 1/fpr, from 0.999 to 1e-12."""
    rates = [0.999, 0.9, 0.7, 0.5, 0.45, *(10 ** (-i / 2) for i in range(1, 24)), 1e-12]

    sizes = [plan(capacity, rate, layout).num_bits for rate in rates]

    assert sizes == sorted(sizes)


@pytest.mark.parametrize("layout", [*LAYOUTS, "auto"])
@pytest.mark.parametrize("fpr", [0.5, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("capacity", [1, 1000])
def test_there_is_always_a_probe(layout: str, fpr: float, capacity: int) -> None:
    """Without one, even the empty filter would say "maybe" to everything."""
    geometry = plan(capacity, fpr, layout)

    assert geometry.num_probes >= 1
    assert geometry.validate() is geometry


def test_classic_bits_fill_whole_lines() -> None:
    """The payload is padded to 64 bytes: padding would cost the same and lower nothing."""
    assert plan(100, 0.01, "classic").num_bits % 512 == 0


@pytest.mark.parametrize(
    ("layout", "capacity", "fpr"),
    [("classic", 2**48, 1e-10), ("line", 2**48, 1e-7), ("page", 2**48, 1e-12)],
)
def test_more_bits_than_the_format_has_are_refused(layout: str, capacity: int, fpr: float) -> None:
    """A limit is an error, never a silent cap."""
    with pytest.raises(ParameterError, match=r"capacity: .*2\*\*53 bits.*it takes"):
        plan(capacity, fpr, layout)


@pytest.mark.parametrize(
    ("capacity", "fpr", "layout", "payload_bytes"),
    [
        pytest.param(10**9, 0.01, "line", None, id="one-percent"),
        pytest.param(10**9, 0.005, "line", None, id="the-limit"),
        pytest.param(10**9, 0.00499, "page", None, id="just-below-the-limit"),
        pytest.param(10**6, 1e-6, "page", None, id="strict"),
        pytest.param(1, 1e-6, "line", 64, id="one-key"),
        pytest.param(100, 1e-6, "line", 512, id="a-hundred-keys"),
        pytest.param(1000, 1e-6, "page", 4096, id="one-page-is-smaller-than-lines"),
        pytest.param(10_000, 1e-4, "line", 27_584, id="seven-pages-are-not"),
        pytest.param(30_000, 1e-4, "page", 77_824, id="nineteen-pages-are"),
    ],
)
def test_auto_takes_line_where_it_is_cheap_and_page_elsewhere(
    capacity: int, fpr: float, layout: str, payload_bytes: int | None
) -> None:
    """`line` from 0.5 % on; below, whichever is smaller, and `line` if they are equal."""
    geometry = plan(capacity, fpr)

    assert geometry.layout == layout
    assert geometry == plan(capacity, fpr, layout)
    if payload_bytes is not None:
        assert geometry.payload_bytes == payload_bytes


def test_above_32_pages_line_is_never_smaller() -> None:
    """So auto need not try it there; nearest to the limit, at the fpr where `line` is best."""
    fpr = 0.00499
    capacities = range(30 * 32768 // 11, 40 * 32768 // 11, 311)

    for capacity in capacities:
        page = plan(capacity, fpr, "page")
        if page.num_blocks > 32:
            assert plan(capacity, fpr, "line").payload_bytes > page.payload_bytes


# ---- twins: what real probes add ----------------------------------------------------------------


def classic_bits(halves: Words, num_bits: int, num_probes: int) -> Indexes:
    """Bit numbers by probe scheme 1: uint64[2, n] -> int[n, num_probes], for num_bits < 2^32."""
    golden = 0x9E3779B97F4A7C15
    x, y = halves
    bits = []
    for i in range(1, num_probes + 1):
        mixed = (x ^ (x >> np.uint64(32))) * np.uint64(golden)
        bits.append(((mixed >> np.uint64(32)) * np.uint64(num_bits)) >> np.uint64(32))
        y = y + np.uint64(i * golden % 2**64)
        x = x + y
    return np.stack(bits, axis=1).astype(np.int64)


def test_few_classic_keys_have_no_twins() -> None:
    """Even a filter of one key meets the model: keys near each other in both halves part ways.

    400 000 filters of one key and one query each: hits are binomial, mean 301 by the model, sd 17;
    4 sd allowed. Without the mixing of scheme 1 it is 415.
    """
    geometry, trials, rng = BloomGeometry("classic", 17, 10), 400_000, np.random.default_rng(7)
    of_keys, of_queries = (
        classic_bits(rng.integers(2**64, size=(2, trials), dtype=np.uint64), 17, 10)
        for _ in range(2)
    )
    trial = np.arange(trials)[:, None]
    is_set = np.zeros((trials, 17), dtype=bool)
    is_set[trial, of_keys] = True
    hits = int(is_set[trial, of_queries].all(axis=1).sum())

    assert abs(hits - trials * model_fpr(*geometry, 1)) < 4 * 17


@pytest.mark.parametrize(
    ("geometry", "num_keys", "expected"),
    [
        pytest.param(BloomGeometry("line", 512, 5), 1, 2**-32, id="line-one-word"),
        pytest.param(BloomGeometry("line", 5120, 8), 200, 20 * 2**-32, id="line-20-keys-a-line"),
        pytest.param(BloomGeometry("line", 512, 16), 1, 0.0, id="line-two-words"),
        pytest.param(BloomGeometry("classic", 4096, 20), 50, 0.0, id="classic"),
        pytest.param(BloomGeometry("page", 32768, 16), 1, 0.0, id="page"),
        pytest.param(BloomGeometry("narrow", 1280, 8), 50, 5 * 2**-32, id="narrow-5-keys-a-line"),
        pytest.param(BloomGeometry("counters", 5120, 8), 50, 5 * 2**-32, id="counters"),
    ],
)
def test_a_word_of_32_bits_has_one_twin_in_2_to_the_32(
    geometry: BloomGeometry, num_keys: int, expected: float
) -> None:
    """As found by trying all 2^32 words of a line; two words have to agree or to be lucky."""
    found = twin_fpr(geometry, num_keys)

    assert found == pytest.approx(expected, rel=0.2, abs=1e-15)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_twins_are_no_matter_for_many_keys(layout: str) -> None:
    """From 100 000 keys and 1e-9 on, they are below 3 % of the fpr: 0.15 % of the bits."""
    assert twin_fpr(plan(100_000, 1e-9, layout), 100_000) < 0.03 * 1e-9


# ---- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fpr", "kind", "message"),
    [
        pytest.param(5, ParameterError, r"found 5 \(did you mean 0\.05\?\)", id="percent"),
        pytest.param(1, ParameterError, r"did you mean 0\.01\?", id="one"),
        pytest.param(0.0, ParameterError, r"fpr: expected 0 < fpr < 1", id="zero"),
        pytest.param(-0.01, ParameterError, r"found -0\.01$", id="negative"),
        pytest.param(1e-80, ParameterError, r"at least 1e-12", id="too-small"),
        pytest.param(1_000_000, ParameterError, r"capacity and fpr swapped\?", id="swapped"),
        pytest.param(10**400, ParameterError, r"0 < fpr < 1", id="beyond-floats"),
        pytest.param(math.nan, ParameterError, r"found nan$", id="nan"),
        pytest.param(math.inf, ParameterError, r"found inf$", id="inf"),
        pytest.param(True, ParameterTypeError, r"found True$", id="bool"),
        pytest.param("0.01", ParameterTypeError, r"found '0\.01'$", id="str"),
        pytest.param(None, ParameterTypeError, r"found None$", id="none"),
        pytest.param(0.1j, ParameterTypeError, r"a real number", id="complex"),
    ],
)
def test_an_impossible_fpr_is_refused_with_what_was_found(
    fpr: object, kind: type[ParameterError], message: str
) -> None:
    """Named, with the rule and the value; a percentage and swapped arguments are guessed."""
    with pytest.raises(ParameterError, match=message) as caught:
        plan(1000, cast("float", fpr))

    assert type(caught.value) is kind
    assert caught.value.name == "fpr"


@pytest.mark.parametrize(
    ("capacity", "kind"),
    [
        pytest.param(0, ParameterError, id="zero"),
        pytest.param(-1, ParameterError, id="negative"),
        pytest.param(2**49, ParameterError, id="too-many"),
        pytest.param(10**30, ParameterError, id="far-too-many"),
        pytest.param(1e30, ParameterTypeError, id="float"),
        pytest.param(1.5, ParameterTypeError, id="fraction"),
        pytest.param(True, ParameterTypeError, id="bool"),
        pytest.param("1000", ParameterTypeError, id="str"),
        pytest.param(None, ParameterTypeError, id="none"),
        pytest.param(np.ones(3, int), ParameterTypeError, id="array"),
    ],
)
def test_an_impossible_capacity_is_refused(capacity: object, kind: type[ParameterError]) -> None:
    """Nothing hangs, nothing is capped: capacity is an int from 1 to 2^48."""
    with pytest.raises(ParameterError, match=r"^capacity: expected ") as caught:
        plan(cast("int", capacity), 0.01)

    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("layout", "kind"),
    [
        pytest.param("blocked", ParameterError, id="unknown"),
        pytest.param("LINE", ParameterError, id="case"),
        pytest.param(2, ParameterTypeError, id="number"),
        pytest.param(None, ParameterTypeError, id="none"),
    ],
)
def test_an_unknown_layout_is_refused(layout: object, kind: type[ParameterError]) -> None:
    """The set of layouts is closed."""
    with pytest.raises(ParameterError, match=r"^layout: expected ") as caught:
        plan(1000, 0.01, cast("str", layout))

    assert type(caught.value) is kind


def test_numbers_of_other_libraries_are_numbers() -> None:
    """NumPy scalars and fractions are taken at their value, and come out as int and float."""
    assert check_capacity(np.uint32(7)) == 7
    assert type(check_capacity(np.uint32(7))) is int
    assert check_fpr(Fraction(1, 4)) == 0.25
    assert type(check_fpr(np.float64(0.25))) is float
    assert check_capacity(2**48) == 2**48
    assert check_fpr(1e-12) == 1e-12
    assert check_layout("auto") == "auto"


# ---- geometry -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("geometry", "block_bytes", "block_bits", "num_blocks", "payload_bytes"),
    [
        pytest.param(BloomGeometry("classic", 1, 1), 0, 1, 1, 64, id="one-bit"),
        pytest.param(BloomGeometry("classic", 513, 3), 0, 513, 1, 128, id="padded"),
        pytest.param(BloomGeometry("classic", 2**53, 3), 0, 2**53, 1, 2**50, id="largest"),
        pytest.param(BloomGeometry("line", 1536, 6), 64, 512, 3, 192, id="line"),
        pytest.param(BloomGeometry("page", 65536, 8), 4096, 32768, 2, 8192, id="page"),
        pytest.param(BloomGeometry("narrow", 640, 8), 16, 128, 5, 128, id="narrow"),
        pytest.param(BloomGeometry("counters", 1536, 8), 64, 512, 3, 192, id="counters"),
    ],
)
def test_sizes_follow_from_layout_and_bits(
    geometry: BloomGeometry, block_bytes: int, block_bits: int, num_blocks: int, payload_bytes: int
) -> None:
    """Blocks in bytes and bits, their number, and the bytes in the file."""
    assert geometry.validate() is geometry
    assert geometry.block_bytes == block_bytes
    assert geometry.block_bits == block_bits
    assert geometry.num_blocks == num_blocks
    assert geometry.payload_bytes == payload_bytes


@pytest.mark.parametrize(
    ("geometry", "field"),
    [
        pytest.param(BloomGeometry("shard", 512, 6), "layout", id="unknown-layout"),
        pytest.param(BloomGeometry("classic", 0, 1), "num_bits", id="no-bits"),
        pytest.param(BloomGeometry("classic", 2**53 + 1, 1), "num_bits", id="too-many-bits"),
        pytest.param(BloomGeometry("line", 1000, 6), "num_bits", id="half-a-line"),
        pytest.param(BloomGeometry("line", -512, 6), "num_bits", id="negative"),
        pytest.param(BloomGeometry("page", 512, 6), "num_bits", id="less-than-a-page"),
        pytest.param(BloomGeometry("classic", 512, 0), "num_probes", id="no-probes"),
        pytest.param(BloomGeometry("classic", 512, 65), "num_probes", id="classic-65"),
        pytest.param(BloomGeometry("line", 512, 17), "num_probes", id="line-17"),
        pytest.param(BloomGeometry("page", 32768, 33), "num_probes", id="page-33"),
        pytest.param(BloomGeometry("fuse3", 512, 3), "layout", id="another-kind"),
        pytest.param(BloomGeometry("narrow", 192, 5), "num_bits", id="one-line-and-a-half"),
        pytest.param(BloomGeometry("counters", 128, 5), "num_bits", id="a-quarter-of-a-line"),
        pytest.param(BloomGeometry("counters", 512, 17), "num_probes", id="counters-17"),
    ],
)
def test_an_impossible_geometry_is_refused_by_field(geometry: BloomGeometry, field: str) -> None:
    """validate() is the door: model_fpr goes through it too."""
    with pytest.raises(ParameterError) as caught:
        geometry.validate()
    with pytest.raises(ParameterError):
        model_fpr(*geometry, 10)

    assert caught.value.name == field


def test_layout_numbers_are_those_of_the_file_format() -> None:
    """They are in every header: they never change."""
    assert LAYOUT_IDS == {"classic": 1, "line": 2, "page": 3}
    assert tuple(LAYOUT_IDS) == LAYOUTS

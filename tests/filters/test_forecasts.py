"""The rate that a filter will have when more keys are in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from filter_files import keys, rate_of

import mmbloom
from mmbloom import BloomFilter, CountingBloomFilter, ParameterError, ParameterTypeError
from mmbloom.kinds import forecasts
from mmbloom.kinds.bloom_layouts import LAYOUTS
from mmbloom.sizing.bloom import BloomGeometry, model_fpr, plan

if TYPE_CHECKING:
    from pathlib import Path

RATES = (0.5, 0.01, 1e-4, 1e-9)


def _later(geometry: BloomGeometry, payload: memoryview, num_keys: int) -> float:
    return forecasts.rounded(LAYOUTS[geometry.layout].forecast(geometry, payload, num_keys))


@pytest.mark.parametrize("fpr", RATES)
@pytest.mark.parametrize("count", [1, 30, 1000, 20_000])
def test_from_empty_it_is_the_model(layout: str, fpr: float, count: int) -> None:
    """Down to 1e-30, below which it is 0; page by quadrature, with the errors that are stated."""
    geometry = plan(20_000, fpr, layout)
    expected = model_fpr(layout, geometry.num_bits, geometry.num_probes, count)

    found = _later(geometry, memoryview(bytes(geometry.payload_bytes)), count)

    tolerance = 1e-12 if layout != "page" else 1e-9 if count == 20_000 else 1e-5
    assert found == pytest.approx(expected if expected > 1e-30 else 0, rel=tolerance, abs=0)


def test_without_more_keys_it_is_the_rate_of_now(layout: str) -> None:
    """To the last digit, for a payload of any fill."""
    with BloomFilter.in_memory(capacity=1000, fpr=0.01, layout=layout) as found:
        found.update(keys(700))
        assert found.forecast(0) == found.expected_fpr()


def test_one_more_key_changes_little(layout: str) -> None:
    """The formula for more keys goes over into the one for none: fill^k grows by k / n at most."""
    with BloomFilter.in_memory(capacity=10_000, fpr=0.01, layout=layout) as found:
        found.update(keys(8000))
        now, geometry = found.expected_fpr(), found.geometry
        step = _later(geometry, found._opened.payload, 1) / now - 1

    assert 0 < step < geometry.num_probes / 8000


def relative_sigma(found: BloomFilter) -> float:
    """Return how much the rate of a filter of so many random keys scatters, as a share of it.

    classic: k times that of its fill, by the variance of an occupancy problem. Of the others, the
    rate is a mean over lines, which are nearly independent: that of a line by the root of their
    number, for page that of both halves together.
    """
    geometry, k = found.geometry, found.num_probes
    bits = np.unpackbits(np.frombuffer(found._opened.payload, np.uint8))
    if geometry.layout == "classic":
        load = k * found.keys_added / geometry.num_bits
        variance = math.exp(-2 * load) * (math.expm1(load) - load) / geometry.num_bits
        return k * math.sqrt(variance) / found.fill_ratio()
    fills = bits.reshape(-1, 512).mean(axis=1)
    if geometry.layout == "line":
        parts = [fills**k]
    else:
        halves = fills.reshape(-1, 2, 32)
        parts = [halves[:, 0].ravel() ** ((k + 1) // 2), halves[:, 1].ravel() ** (k // 2)]
    return math.sqrt(sum(part.var() / part.mean() ** 2 / part.size for part in parts))


@pytest.mark.parametrize("start", [0, 5000, 10_000])
def test_the_forecast_comes_true(layout: str, start: int) -> None:
    """Against the bits that there are then: within 4 sigma; those that were there count for 0."""
    with BloomFilter.in_memory(capacity=15_000, fpr=0.01, layout=layout) as found:
        found.update(keys(start))
        forecast = found.forecast(15_000 - start)
        found.update(keys(15_000 - start, start))
        sigma = relative_sigma(found)

        assert sigma < 0.05
        assert found.expected_fpr() == pytest.approx(forecast, rel=4 * sigma)


def test_an_uneven_payload_gets_its_own_forecast(layout: str) -> None:
    """A quarter of the lines full, the rest empty: a count of keys would not tell."""
    geometry = plan(100_000, 0.01, layout)
    payload = bytearray(geometry.payload_bytes)
    quarter = len(payload) // 4 // 4096 * 4096
    payload[:quarter] = b"\xff" * quarter
    now = rate_of(geometry, payload)

    later = _later(geometry, memoryview(payload), 1000)

    if layout != "classic":  # there the bits of a key lie all over: fill to the power of k
        assert now == pytest.approx(0.25, abs=0.02)
    assert now < later < 1.2 * now


def test_it_goes_past_the_capacity_and_on_files(tmp_path: str, layout: str) -> None:
    """It is the question whether to; a reader may ask it."""
    path = f"{tmp_path}/a.mmb"
    mmbloom.build(path, keys(1000), fpr=0.01, layout=layout).close()
    with mmbloom.open(path) as found:
        rates = [found.forecast(count) for count in (0, 500, 5000, 1 << 30)]

    assert rates == sorted(rates)
    assert rates[0] < 2 * rates[0] < rates[1] < rates[2] < rates[3]
    assert rates[3] == pytest.approx(1)


def test_one_probe_has_nothing_in_the_upper_half() -> None:
    """At rates of a half, page has one probe a key."""
    geometry = BloomGeometry("page", 32_768 * 4, 1)
    expected = model_fpr("page", geometry.num_bits, 1, 60_000)

    found = _later(geometry, memoryview(bytes(geometry.payload_bytes)), 60_000)

    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("count", "error"),
    [(-1, ParameterError), ((1 << 48) + 1, ParameterError), (1.5, ParameterTypeError)],
)
def test_a_count_that_is_none_is_refused(count: int, error: type[Exception]) -> None:
    """By its name."""
    with (
        BloomFilter.in_memory(capacity=10, fpr=0.1) as found,
        pytest.raises(error, match="num_new_keys: expected"),
    ):
        found.forecast(count)


@pytest.mark.parametrize("start", [0, 10_000])
def test_the_forecast_of_counters_comes_true(tmp_path: Path, start: int) -> None:
    """By what is not zero; also that of the bits that stand for them. As above, 4 sigma."""
    with CountingBloomFilter.in_memory(capacity=15_001, fpr=0.01) as found:
        found.update(keys(start))
        forecast = found.forecast(15_000 - start)
        with found.to_bloom(tmp_path / "narrow.mmb") as narrow:
            assert narrow.forecast(15_000 - start) == forecast
        found.update(keys(15_000 - start, start))
        flat = found.geometry.flat
        nibbles = np.frombuffer(found._opened.payload, np.uint8)
        places = np.stack([nibbles & 15, nibbles >> 4], axis=1).ravel()[: flat.num_bits] > 0
        powers = places.reshape(-1, 128).mean(axis=1) ** flat.num_probes
        sigma = math.sqrt(powers.var() / powers.mean() ** 2 / powers.size)

        assert sigma < 0.05
        assert found.expected_fpr() == pytest.approx(powers.mean(), rel=1e-9)
        assert found.expected_fpr() == pytest.approx(forecast, rel=4 * sigma)

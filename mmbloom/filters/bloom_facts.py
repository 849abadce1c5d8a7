"""What a Bloom filter, plain or counting, says of itself: its geometry, and what is set tells."""

from __future__ import annotations

from typing import Any

from mmbloom.filters import forecasts, measure
from mmbloom.filters.facts import FilterFacts
from mmbloom.sizing.bloom import Geometry, check_capacity


class BloomFacts(FilterFacts):
    """The read-only side of BloomFilter and CountingBloomFilter; see there."""

    @property
    def geometry(self) -> Geometry:
        """Layout, num_bits and num_probes together, with the sizes that follow from them."""
        header = self._header
        return Geometry(header.layout_name, header.num_bits, header.num_probes)

    @property
    def fill_ratio(self) -> float:
        """Set bits / num_bits; of counters, the share that is not zero.

        Cost: one pass over the payload, unless sealed.
        """
        steady = self._steady()
        return steady._bits_set() * steady.place_bits / steady.num_bits

    def approx_count(self) -> int:
        """Estimate the distinct keys from the set bits.

        Without a single zero bit the answer is a floor: more cannot be told.
        Cost: one pass over the payload. Source and validity: ``estimates.estimate_keys``.
        """
        whole = self._whole()
        with whole._whole_payload() as payload:
            return round(measure.approx_keys(whole.geometry, payload))

    def forecast(self, num_new_keys: int) -> float:
        """Return the false-positive rate to expect once so many more keys are added.

        Args:
            num_new_keys: distinct keys that are not in yet, 0 to 2**48; past the capacity too.

        Raises:
            ParameterError, ParameterTypeError: not such a number.

        Cost: one pass over the payload, up to 6 for layout page.
        Source and validity: ``forecasts.fpr_after``.
        """
        self._check_open()
        # As many as a filter can be made for, and none as well.
        number = check_capacity(num_new_keys, "num_new_keys", least=0)
        whole = self._whole()
        with whole._whole_payload() as payload:
            return forecasts.fpr_after(whole.geometry, payload, number)

    def _measure_fpr(self, payload: memoryview) -> float:
        return measure.expected_fpr(self.geometry, payload)

    def _fewest_keys(self, payload: memoryview) -> int:
        return measure.fewest_keys(self.geometry, payload)

    def _kind_facts(self) -> dict[str, Any]:
        return {"overfill": bool(self._header.overfill)}

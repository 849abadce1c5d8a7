"""Sizing of Bloom filters: from (capacity, fpr) to a geometry, and from a geometry to its fpr.

This module has the parameter checks and the search for the fewest bits. The formula itself is in
``model.py``, the estimates for a filled payload are in ``estimates.py``, and the probes are in the
engine.

How the layouts enter the model: in `line`, all probes of a key are on one of num_bits / 512 lines.
In `page`, half of them are on one of the lower 32 lines of a page, and half on one of the upper 32.
`classic` is a single line as long as the payload. `narrow` is like `line` with lines of 128 bits.
`counters` is `narrow` with a counter of 4 bits in place of each bit, so it is sized like `narrow`.
"""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import NamedTuple, SupportsIndex

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.format.fields import COUNTER_BITS, LINE_BITS, MAX_CAPACITY, MAX_NUM_BITS
from mmbloom.format.kinds import LAYOUT_RULES
from mmbloom.sizing.search import least_passing

LAYOUTS = ("classic", "line", "page")  # the layouts that plan() accepts
MODELLED = (*LAYOUTS, "narrow", "counters")
LAYOUT_IDS = {name: LAYOUT_RULES[name].number for name in LAYOUTS}

MIN_FPR = 1e-12  # 10 000 times 2^-53: sums of floats would not be exact enough for less

# auto: at this fpr and above, `line` needs at most 4 % more bits than `page`, and reads one cache
# line instead of two.
LINE_FROM_FPR = 0.005
# auto: `line` never needs fewer bytes than `page` above 29 pages (that maximum is at fpr 0.00499).
MAX_PAGES_OF_A_LINE_FILTER = 32

SEARCH_ZEROS = 14  # MIN_FPR has 12 zeros: the search needs no digits of smaller probabilities


class LayoutModel(NamedTuple):
    """How a layout enters the formulas.

    Attributes:
        line_bits: bits of the line that probes fall on; 0 for the whole payload.
        num_halves: 2 if half of the probes fall on each of two lines, otherwise 1.
        choices: lines of a block that a line is chosen from.
        step_bits: the step of sizes.
        bends: corrections of the first guess of probes and bits, for the search.
        place_bits: bits of the payload for each bit of the model: more if it holds counters.
    """

    line_bits: int
    num_halves: int
    choices: int
    step_bits: int
    bends: tuple[float, float]
    place_bits: int = 1

    def split(self, num_probes: int) -> tuple[int, int]:
        """Return how many probes fall on each of the two lines; (all, 0) for a single line."""
        upper = num_probes // 2 if self.num_halves > 1 else 0
        return num_probes - upper, upper

    def split_by_word(self, num_probes: int) -> tuple[int, ...]:
        """Return how many probes each 32-bit word of the hash gives; () if all bits are used."""
        if not self.line_bits:
            return ()
        if self.num_halves > 1:
            return self.split(num_probes)
        return min(num_probes, PROBES_PER_WORD), max(num_probes - PROBES_PER_WORD, 0)


LINES_PER_HALF = 32  # `page`: a key has one line of the lower 32 and one of the upper 32
PROBES_PER_WORD = 8  # `line` and `narrow`: the first 8 probes come from one word of the hash
_NARROW_BITS = LAYOUT_RULES["narrow"].num_bits_step
MODELS = {
    "classic": LayoutModel(0, 1, 1, LINE_BITS, (0.0, 0.0)),
    "line": LayoutModel(LINE_BITS, 1, 1, LINE_BITS, (0.0093, 0.00083)),
    "page": LayoutModel(
        LINE_BITS, 2, LINES_PER_HALF, 2 * LINES_PER_HALF * LINE_BITS, (0.0045, 0.00021)
    ),
    "narrow": LayoutModel(_NARROW_BITS, 1, 1, _NARROW_BITS, (0.0093, 0.00083), COUNTER_BITS),
}
# The layouts of counters: the layout of bits that each is sized like, and the bits of a counter.
_FLAT = {"counters": ("narrow", COUNTER_BITS)}


class BloomGeometry(NamedTuple):
    """The dimensions of a Bloom filter. With the hash, they determine the probes of a key."""

    layout: str
    num_bits: int
    num_probes: int

    @property
    def block_bytes(self) -> int:
        """Size of the block that holds all probes of a key; 0 for classic, as in the header."""
        return LAYOUT_RULES[self.layout].block_bytes

    @property
    def block_bits(self) -> int:
        """Bits of a block; for classic the whole payload is one block."""
        return self.block_bytes * 8 or self.num_bits

    @property
    def num_blocks(self) -> int:
        """Number of blocks; 1 for classic."""
        return self.num_bits // self.block_bits

    @property
    def flat(self) -> BloomGeometry:
        """The equivalent filter of bits: one bit per counter, otherwise the geometry itself."""
        layout, place_bits = _FLAT.get(self.layout, (self.layout, 1))
        return BloomGeometry(layout, self.num_bits // place_bits, self.num_probes)

    @property
    def model(self) -> LayoutModel:
        """How the layout enters the formulas; for a flat geometry."""
        return MODELS[self.layout]

    @property
    def payload_bytes(self) -> int:
        """Bytes in the file, padded to whole 64-byte lines; the padding is zero."""
        return -(-self.num_bits // LINE_BITS) * (LINE_BITS // 8)

    def validate(self) -> BloomGeometry:
        """Return the geometry itself; raise ParameterError if a field is out of range."""
        if self.layout not in MODELLED:
            raise ParameterError("layout", f"one of {', '.join(MODELLED)}", self.layout)
        rule = LAYOUT_RULES[self.layout]
        if not 1 <= self.num_probes <= rule.max_probes:
            expected = f"1 to {rule.max_probes} for layout {self.layout}"
            raise ParameterError("num_probes", expected, self.num_probes)
        step = rule.num_bits_step
        if not step <= self.num_bits <= MAX_NUM_BITS or self.num_bits % step:
            expected = f"{step} to 2**53, in steps of {step}, for layout {self.layout}"
            raise ParameterError("num_bits", expected, self.num_bits)
        return self


def check_capacity(capacity: SupportsIndex, name: str = "capacity", least: int = 1) -> int:
    """Return *capacity* as an int from *least* to 2**48. Any integer type except bool is accepted.

    *name* is the name of the parameter, for error messages.
    """
    try:
        number = operator.index(capacity)
    except TypeError:
        number = None
    if number is None or isinstance(capacity, bool):
        raise ParameterTypeError(name, "an int", capacity)
    if not least <= number <= MAX_CAPACITY:
        raise ParameterError(name, f"{least} to 2**48 keys", capacity)
    return number


def check_fpr(fpr: object) -> float:
    """Return *fpr* as a float in [1e-12, 1). Any type of real numbers except bool is accepted."""
    from numbers import Real

    if isinstance(fpr, bool) or not isinstance(fpr, Real):
        raise ParameterTypeError("fpr", "a real number", fpr)
    try:
        number = float(fpr)
    except OverflowError:  # an int or a fraction too large for a float
        number = math.inf
    if MIN_FPR <= number < 1:
        return number
    hint = ""
    if 1 <= number < 100:  # noqa: PLR2004 - a percentage
        hint = f"did you mean {number / 100:g}?"
    elif 100 <= number < math.inf:  # noqa: PLR2004
        hint = "are capacity and fpr swapped?"
    raise ParameterError("fpr", "0 < fpr < 1, and at least 1e-12", fpr, hint)


def check_layout(layout: object) -> str:
    """Return *layout* if it is "auto" or one of LAYOUTS."""
    if not isinstance(layout, str):
        raise ParameterTypeError("layout", "a str", layout)
    if layout not in ("auto", *LAYOUTS):
        raise ParameterError("layout", f"one of auto, {', '.join(LAYOUTS)}", layout)
    return layout


def model_fpr(layout: str, num_bits: int, num_probes: int, num_keys: int) -> float:
    """Return the fpr of a filter with *num_keys* distinct keys, for ideal (independent) probes.

    The result is exact to the precision of a float for every geometry. It is 0.0 for an empty
    filter, and if the fpr is below about 1e-300. twin_fpr() estimates what real probes add.

    Formula and source: ``model.py``. Cost: 0.1 to 1 ms; `page` with 32 probes up to 4 ms.
    """
    geometry = BloomGeometry(layout, num_bits, num_probes).validate().flat
    if num_keys < 1:
        return 0.0
    for zeros in (SEARCH_ZEROS, 50, 150, 310):  # the first precision is nearly always enough
        chance = _model(geometry, num_keys, zeros)
        if chance >= 10.0**-zeros:
            return min(1.0, chance)
    return 0.0


def _model(geometry: BloomGeometry, num_keys: int, leading_zeros: int) -> float:
    """Return the fpr of the model. Below 10^-leading_zeros it is inexact and may be negative."""
    from mmbloom.sizing import model  # `decimal` is needed to size a filter, not to open one

    layout = geometry.model
    return float(
        model.chance(
            line_bits=layout.line_bits or geometry.num_bits,
            probes=layout.split(geometry.num_probes),
            choices=layout.choices,
            num_blocks=geometry.num_blocks,
            num_keys=num_keys,
            leading_zeros=leading_zeros,
        )
    )


def twin_fpr(geometry: BloomGeometry, num_keys: int) -> float:
    """Estimate what real probes add to model_fpr(): absent keys that share the probes of a member.

    Probes are derived from the hash and are not independent. In every layout except `classic`, a
    word of 32 bits determines up to 16 probes: in `line` and `narrow` one word gives the first 8
    and the other one the rest, in `page` each word gives the probes of one of the two lines. An
    absent key has the same word as some member of its line with probability load / 2^32, where load
    is the mean number of keys on a line. It is then a false positive if the probes of its other
    word hit by chance, with probability fill^probes. The result is the sum over both words:

        load / 2^32 * (fill_1^probes_1 + fill_2^probes_2)

    `classic` uses all 128 bits of the hash, so the result is 0.

    Validity: agrees with a trial of all 2^32 words. The result matters for p < 1e-8 in `line`; it
    is below 3 % of p for p >= 1e-9 and at least 100 000 keys.
    """
    geometry = geometry.flat
    k, layout = geometry.num_probes, geometry.model
    load = num_keys / (geometry.num_blocks * layout.choices)
    passes = 0.0
    for probes in layout.split_by_word(k):
        on_line = k if layout.num_halves == 1 else probes
        fill = -math.expm1(-on_line * load / layout.line_bits)
        passes += fill**probes
    return min(1.0, passes * load / 2**32)


def planned_fpr(geometry: BloomGeometry, num_keys: int) -> float:
    """Return the expected fpr with real probes: the sum of model_fpr() and twin_fpr().

    plan() compares this sum, not the model alone, with its target.
    """
    return min(1.0, model_fpr(*geometry, num_keys) + twin_fpr(geometry, num_keys))


def plan(capacity: int, fpr: float, layout: str = "auto") -> BloomGeometry:
    """Return the geometry with the fewest bits whose planned_fpr() is <= *fpr* at *capacity* keys.

    Among geometries of equal size it has the fewest probes. Within a layout, num_bits never
    decreases when capacity or 1 / fpr increases. With "auto" it drops by up to 4 % where fpr falls
    below 0.005, because the layout changes there.

    Args:
        capacity: distinct keys, 1 to 2**48.
        fpr: target, 1e-12 <= fpr < 1.
        layout: "auto" is `line` for fpr >= 0.005, and also if `line` needs no more bytes than
            `page`, as in small filters, where whole pages waste space. Otherwise it is `page`.

    Raises:
        ParameterError, ParameterTypeError: naming the parameter; also if it would take more than
            2**53 bits.

    Cost: 1 to 15 ms; `page` up to 50 ms.
    """
    capacity, fpr, layout = check_capacity(capacity), check_fpr(fpr), check_layout(layout)
    if layout != "auto":
        return _fewest_bits(layout, capacity, fpr)
    if fpr >= LINE_FROM_FPR:
        return _fewest_bits("line", capacity, fpr)
    page = _fewest_bits("page", capacity, fpr)
    if page.num_blocks > MAX_PAGES_OF_A_LINE_FILTER:
        return page
    line = _fewest_bits("line", capacity, fpr)
    return line if line.payload_bytes <= page.payload_bytes else page


def plan_counters(capacity: int, fpr: float) -> BloomGeometry:
    """Return the geometry with the fewest counters that keeps *fpr* at *capacity* keys.

    Arguments, errors and cost are those of plan(). Lines of 128 counters are inefficient for an fpr
    below 1e-6: they need 300 bits per key or more.
    """
    flat = _fewest_bits("narrow", check_capacity(capacity), check_fpr(fpr))
    return BloomGeometry("counters", COUNTER_BITS * flat.num_bits, flat.num_probes)


def _fewest_bits(layout: str, capacity: int, fpr: float) -> BloomGeometry:
    """Search for the fewest steps, and for them the fewest probes, that keep *fpr*.

    Start from a guess. Then repeat, one step below the smallest size that passed: move the number
    of probes towards the lowest fpr; if the fpr passes there, search for a smaller size.
    """
    step_bits, place_bits = MODELS[layout].step_bits, MODELS[layout].place_bits
    known: dict[tuple[int, int], float] = {}

    def excess(num_probes: int, num_steps: int) -> float:
        at = (num_probes, num_steps)
        if at not in known:
            geometry = BloomGeometry(layout, num_steps * step_bits, num_probes)
            # Far below MIN_FPR the model is inexact and may be negative: the size passes anyway.
            ideal = max(0.0, _model(geometry, capacity, SEARCH_ZEROS))
            known[at] = math.log(max(ideal + twin_fpr(geometry, capacity), 1e-300) / fpr)
        return known[at]

    k, steps = _first_guess(layout, capacity, fpr)
    size = least_passing(partial(excess, k), steps, -math.log(fpr))
    best = k
    while size > 1:
        near = [i for i in (k - 1, k + 1) if 1 <= i <= LAYOUT_RULES[layout].max_probes]
        better = min(near, key=lambda i: excess(i, size - 1))
        if excess(better, size - 1) < excess(k, size - 1):
            k = better
        elif excess(k, size - 1) <= 0:
            size, best = least_passing(partial(excess, k), size - 1, -math.log(fpr)), k
        else:
            break
    while best > 1 and excess(best - 1, size) <= 0:
        best -= 1
    if place_bits * size * step_bits > MAX_NUM_BITS:
        expected = f"at most 2**53 bits (1 PiB) in layout {layout} at fpr {fpr:g}"
        takes = f"it takes {place_bits * size * step_bits:.3g} bits"
        raise ParameterError("capacity", expected, capacity, takes)
    return BloomGeometry(layout, size * step_bits, best)


def _first_guess(layout: str, capacity: int, fpr: float) -> tuple[int, int]:
    """Return (num_probes, steps) near the optimum.

    The textbook formulas (Bloom 1970; Broder & Mitzenmacher 2004) for p = fpr, n = capacity:
    k = log2(1/p) probes and m = -k n / ln(1 - p^(1/k)) bits. Each is corrected by a term in
    log2(1/p)^2, fitted to the results of plan() for 1e9 keys. A bad guess costs time, not bits.
    """
    halvings = -math.log2(fpr)
    classic_k = max(1, round(halvings))
    k_bend, bits_bend = MODELS[layout].bends
    num_halves = MODELS[layout].num_halves  # an odd number would load one half more than the other
    k = num_halves * max(1, round((halvings - k_bend * halvings**2) / num_halves))
    bits_per_key = (
        -classic_k / math.log1p(-(fpr ** (1 / classic_k))) * (1 + bits_bend * halvings**2)
    )
    steps = math.ceil(capacity * bits_per_key / MODELS[layout].step_bits)
    return min(k, LAYOUT_RULES[layout].max_probes), max(1, steps)

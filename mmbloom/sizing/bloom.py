"""Sizing: from (capacity, fpr) to a geometry, and from a geometry to the fpr it will have.

Lives here: the layouts and their limits, the parameter checks, the search for the fewest bits.
Not here: the formula itself (``model.py``), what a filled payload says of itself
(``estimates.py``), the probes (the engine).

A key of `line` has all its probes on one of num_bits / 512 lines. A key of `page` has half of them
on one of the lower 32 lines of a page, half on one of the upper 32. `classic` is one line as long
as the payload. `narrow` is `line` with 128 bits, and `counters` is `narrow` with a counter of 4
bits for each: a filter that keys can be removed from, sized as the bits that it stands for.
"""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import NamedTuple, SupportsIndex

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.format.fields import BLOCK_BITS as LINE_BITS
from mmbloom.format.fields import COUNTER_BITS, LAYOUT_RULES, MAX_CAPACITY, MAX_NUM_BITS
from mmbloom.sizing.search import least_passing

LAYOUTS = ("classic", "line", "page")  # those that plan() chooses from
MODELLED = (*LAYOUTS, "narrow", "counters")
LAYOUT_IDS = {name: LAYOUT_RULES[name].number for name in LAYOUTS}

LINES_PER_HALF = 32  # a page key has one line of the lower 32 lines of its page, one of the upper
MIN_FPR = 1e-12  # ten thousand times 1 / 2^53: below it, sums of floats would need more care

# auto: from this fpr on, `line` costs at most 4 % more bits than `page`, and touches one line less.
LINE_FROM_FPR = 0.005
# auto: `line` never takes fewer bytes in more pages than 29 (the most is at fpr 0.00499).
MAX_PAGES_OF_A_LINE_FILTER = 32

SEARCH_ZEROS = 14  # MIN_FPR has 12: while searching, no chance below that needs to be exact


class Geometry(NamedTuple):
    """The shape of a filter: all that the probes need to know besides the hash."""

    layout: str
    num_bits: int
    num_probes: int

    @property
    def block_bytes(self) -> int:
        """Bytes that hold all probes of a key; 0 for classic, as in the header."""
        return LAYOUT_RULES[self.layout].block_bytes

    @property
    def block_bits(self) -> int:
        """Bits that a key's probes fall into; for classic the whole payload is one block."""
        return self.block_bytes * 8 or self.num_bits

    @property
    def num_blocks(self) -> int:
        """Number of blocks; 1 for classic."""
        return self.num_bits // self.block_bits

    @property
    def flat(self) -> Geometry:
        """The bits that keys set: of counters one bit each, else the geometry itself."""
        if self.layout != "counters":
            return self
        return Geometry("narrow", self.num_bits // COUNTER_BITS, self.num_probes)

    @property
    def payload_bytes(self) -> int:
        """Bytes in the file, whole 64-byte lines; the bits from num_bits on stay zero."""
        return -(-self.num_bits // LINE_BITS) * (LINE_BITS // 8)

    def validate(self) -> Geometry:
        """Return the geometry itself, or raise ParameterError for a field no filter can have."""
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
    """Return *capacity* as an int in least..2**48; any integer type will do, bool and float not.

    *name* is that of the parameter, for the error.
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
    """Return *fpr* as a float in [1e-12, 1); any type of real numbers will do, bool and str not."""
    from numbers import Real

    if isinstance(fpr, bool) or not isinstance(fpr, Real):
        raise ParameterTypeError("fpr", "a real number", fpr)
    try:
        number = float(fpr)
    except OverflowError:  # an int or a fraction beyond any float
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
    """Return the fpr of a filter with *num_keys* distinct keys, if probes are ideal.

    Exact to a float's precision for every geometry; 0.0 for an empty filter, and for less than
    1e-300. What real probes add: twin_fpr. Cost: 0.1 to 1 ms, `page` with 32 probes up to 4 ms.
    """
    geometry = Geometry(layout, num_bits, num_probes).validate().flat
    if num_keys < 1:
        return 0.0
    for zeros in (SEARCH_ZEROS, 50, 150, 310):  # most questions end at the first
        chance = _model(geometry, num_keys, zeros)
        if chance >= 10.0**-zeros:
            return min(1.0, chance)
    return 0.0


def _model(geometry: Geometry, num_keys: int, leading_zeros: int) -> float:
    """Return the fpr of the model: rough, perhaps negative, if smaller than 10^-leading_zeros."""
    from mmbloom.sizing import model  # `decimal` is needed to size a filter, not to open one

    layout, _, k = geometry
    return float(
        model.chance(
            line_bits=LINE_BITS if layout == "page" else geometry.block_bits,
            probes=(k - k // 2, k // 2) if layout == "page" else (k, 0),
            choices=LINES_PER_HALF if layout == "page" else 1,
            num_blocks=geometry.num_blocks,
            num_keys=num_keys,
            leading_zeros=leading_zeros,
        )
    )


def twin_fpr(geometry: Geometry, num_keys: int) -> float:
    """Estimate what real probes add to model_fpr: absent keys that follow the probes of a member.

    Probes are derived, not drawn. In all but `classic` a word of 32 bits gives up to 16 probes
    (`line` and `narrow`: 8 and the rest; `page`: one word for each of its two lines), so an absent
    key has the word of a member of its line with chance load / 2^32; the other word has to pass by
    itself. `classic` draws on all 128 bits: nothing to add.

    Validity: as found by trying all 2^32 words. It matters for p < 1e-8 in `line`, and is below 3 %
    of p for p >= 1e-9 and 100 000 keys or more.
    """
    geometry = geometry.flat
    if geometry.layout == "classic":
        return 0.0
    k = geometry.num_probes
    is_line = geometry.layout != "page"
    load = num_keys / (geometry.num_blocks * (1 if is_line else LINES_PER_HALF))
    line_bits = geometry.block_bits if is_line else LINE_BITS
    words = (min(k, 8), max(k - 8, 0)) if is_line else (k - k // 2, k // 2)
    passes = 0.0
    for probes in words:
        fill = -math.expm1(-(k if is_line else probes) * load / line_bits)
        passes += fill**probes
    return min(1.0, passes * load / 2**32)


def planned_fpr(geometry: Geometry, num_keys: int) -> float:
    """Return the fpr to expect of real probes. plan() keeps this, not the model, at its target."""
    return min(1.0, model_fpr(*geometry, num_keys) + twin_fpr(geometry, num_keys))


def plan(capacity: int, fpr: float, layout: str = "auto") -> Geometry:
    """Return the geometry of fewest bits that has planned_fpr <= *fpr* at *capacity* keys.

    Among equals, that of fewest probes. num_bits never falls when the capacity or 1 / fpr rises,
    within a layout; "auto" steps down by up to 4 % where fpr passes below 0.005.

    Args:
        capacity: distinct keys, 1 to 2**48.
        fpr: target, 1e-12 <= fpr < 1.
        layout: "auto" is `line` for fpr >= 0.005, and for any fpr if `line` takes no more bytes
            than `page`: so in small filters, where pages are coarse. Else it is `page`.

    Raises:
        ParameterError, ParameterTypeError: naming the parameter. More than 2**53 bits are refused.

    Cost: 1 to 15 ms; `page` up to 50.
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


def plan_counters(capacity: int, fpr: float) -> Geometry:
    """Return the geometry of fewest counters that has planned_fpr <= *fpr* at *capacity* keys.

    Args, errors, cost: as plan(). Below 1e-6 a line of 128 counters is a poor fit: it takes 300
    bits a key and more.
    """
    flat = _fewest_bits("narrow", check_capacity(capacity), check_fpr(fpr))
    return Geometry("counters", COUNTER_BITS * flat.num_bits, flat.num_probes)


def _fewest_bits(layout: str, capacity: int, fpr: float) -> Geometry:
    """Walk k to the least fpr at one step below the size that passed last; if it passes, shrink."""
    step_bits = _step_bits(layout)
    known: dict[tuple[int, int], float] = {}

    def excess(num_probes: int, num_steps: int) -> float:
        at = (num_probes, num_steps)
        if at not in known:
            geometry = Geometry(layout, num_steps * step_bits, num_probes)
            # Far below the least fpr the model may be rough, even negative: it passes all the same.
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
    place_bits = COUNTER_BITS if layout == "narrow" else 1
    if place_bits * size * step_bits > MAX_NUM_BITS:
        expected = f"few enough keys for 2**53 bits (1 PiB) in layout {layout} at fpr {fpr:g}"
        takes = f"it takes {place_bits * size * step_bits:.3g}"
        raise ParameterError("capacity", expected, capacity, takes)
    return Geometry(layout, size * step_bits, best)


def _step_bits(layout: str) -> int:
    """Return the step of sizes: a block; for classic a line, for its payload is padded to lines."""
    return LINE_BITS if layout == "classic" else LAYOUT_RULES[layout].num_bits_step


def _first_guess(layout: str, capacity: int, fpr: float) -> tuple[int, int]:
    """Return (num_probes, steps) near the optimum.

    The textbook's k = log2(1/p) and m = -k n / ln(1 - p^(1/k)), bent by terms in log2(1/p)^2 that
    were fitted to what plan() finds for 1e9 keys. A bad guess costs time, not bits.
    """
    halvings = -math.log2(fpr)
    classic_k = max(1, round(halvings))
    k_bend, bits_bend = {
        "classic": (0.0, 0.0),
        "line": (0.0093, 0.00083),
        "page": (0.0045, 0.00021),
        "narrow": (0.0093, 0.00083),
    }[layout]
    k = halvings - k_bend * halvings**2
    k = (
        max(1, round(k)) if layout != "page" else max(2, 2 * round(k / 2))
    )  # an odd k strains one half more
    bits_per_key = (
        -classic_k / math.log1p(-(fpr ** (1 / classic_k))) * (1 + bits_bend * halvings**2)
    )
    steps = math.ceil(capacity * bits_per_key / _step_bits(layout))
    return min(k, LAYOUT_RULES[layout].max_probes), max(1, steps)

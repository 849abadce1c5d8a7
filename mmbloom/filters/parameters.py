"""What a filter is made with -> the header of its file: checked, sized and named."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Literal

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.format.header import new_header
from mmbloom.format.status import Status
from mmbloom.sizing.bloom import check_capacity, check_fpr, plan, plan_counters

if TYPE_CHECKING:
    from mmbloom.format.header import Header

_LAST_EPOCH = (1 << 63) // 10**9 - 1  # nanoseconds in 64 bits: as far as the year 2262


Seed = int | Literal["random"]


def chosen_seed(seed: Seed) -> int:
    """Return *seed*, or 64 bits from the system's randomness for "random".

    Raises:
        ParameterError: another word. Numbers are checked where they get into a header.
    """
    if not isinstance(seed, str):
        return seed
    if seed != "random":
        raise ParameterError("seed", "0 to 2**64 - 1, or 'random'", seed)
    return int.from_bytes(os.urandom(8), "little")


def header_for(  # noqa: PLR0913 - what the header holds
    *,
    capacity: int,
    fpr: float,
    kind: str = "bloom",
    layout: str = "auto",
    seed: Seed = 0,
    key_form: str = "raw",
    metadata: dict[str, Any] | None = None,
    overfill: bool = False,
) -> Header:
    """Return the header of a new filter; see AddingHandle.create(), which documents the parameters.

    Raises:
        ParameterError, ParameterTypeError: naming the parameter.
    """
    capacity, fpr = check_capacity(capacity), check_fpr(fpr)
    _check_types(key_form, overfill)
    if kind == "counting":
        if layout not in ("auto", "counters"):
            raise ParameterError("layout", "'auto' or 'counters', for kind counting", layout)
        geometry = plan_counters(capacity, fpr)
    else:
        geometry = plan(capacity, fpr, layout)
    return new_header(
        layout=geometry.layout,
        num_bits=geometry.num_bits,
        num_probes=geometry.num_probes,
        capacity=capacity,
        fpr=fpr,
        uuid=os.urandom(16),
        created_unix_ns=time.time_ns(),
        seed=chosen_seed(seed),
        key_form=key_form,
        metadata=metadata,
        overfill=overfill,
    )


def _check_types(key_form: object, overfill: object) -> None:
    if not isinstance(key_form, str):
        raise ParameterTypeError("key_form", "a str", key_form)
    if not isinstance(overfill, bool):
        raise ParameterTypeError("overfill", "a bool", overfill)


def fresh(header: Header) -> Header:
    """Return the header of another filter with the same parameters.

    Features that this release does not know are not taken over: it could not keep their promises.
    """
    return header._replace(
        uuid=os.urandom(16), created_unix_ns=time.time_ns(), compatible_features=0
    )


def creation_ns() -> int:
    """Return the date to store: SOURCE_DATE_EPOCH, for files that are to be the same bytes.

    Raises:
        ParameterError: that is no number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return time.time_ns()
    if not epoch.isdecimal() or int(epoch) > _LAST_EPOCH:
        raise ParameterError("SOURCE_DATE_EPOCH", f"0 to {_LAST_EPOCH} seconds", epoch)
    return int(epoch) * 10**9


def content_uuid(header: Header, content: bytes) -> bytes:
    """Return the UUID of a file by its parameters and *content*, which stands for its keys."""
    from hashlib import sha256  # OpenSSL takes long to load

    anonymous = header._replace(uuid=bytes(16), created_unix_ns=0)
    return sha256(content + anonymous.pack(Status())).digest()[:16]

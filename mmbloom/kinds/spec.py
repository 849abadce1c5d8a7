"""What a filter is made with: one specification, checked once."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.format.status import Status
from mmbloom.sizing.bloom import check_capacity, check_fpr

if TYPE_CHECKING:
    from typing import Required, Self

    from mmbloom.format.header import Header

    class SpecOptions(TypedDict, total=False):
        """The fields of FilterSpec beside *kind*, for functions that take them by name."""

        capacity: Required[int]
        fpr: Required[float]
        layout: str
        seed: Seed
        key_form: str
        metadata: dict[str, Any] | None
        overfill: bool


Seed = int | Literal["random"]
_LAST_EPOCH = (1 << 63) // 10**9 - 1  # nanoseconds in 64 bits reach the year 2262


class _Fields(NamedTuple):
    """The fields of FilterSpec, unchecked."""

    kind: str
    capacity: int | None
    fpr: float
    layout: str
    seed: int
    key_form: str
    metadata: dict[str, Any] | None
    overfill: bool


class FilterSpec(_Fields):
    """What a filter is made with.

    Attributes:
        kind: "bloom", "fuse" or "counting".
        capacity: distinct keys that it is sized for, 1 to 2**48. None is for build(), which counts
            them.
        fpr: false-positive rate with that many keys in it, 1e-12 <= fpr < 1; for kind fuse at least
            2**-32.
        layout: where the probes of a key lie; "auto" is the best for the rate. ``mmbloom.plan``
            and FORMAT.md have the list.
        seed: 0 <= seed < 2**64, or "random" for 64 bits from the system, which are chosen here.
            Filters with different seeds have independent false positives.
        key_form: "raw", or "hex" for digests in hexadecimal of either case. It is stored in the
            file, and every reader applies it.
        metadata: a JSON object of up to 2 KiB, for example source, list version and date.
        overfill: whether new keys are added beyond the capacity, at a rising rate, instead of
            refused with CapacityError.

    Raises:
        ParameterError, ParameterTypeError: a value is out of range; the error names the field.
    """

    __slots__ = ()

    def __new__(  # noqa: PLR0913 - the fields, by name
        cls,
        *,
        kind: str = "bloom",
        capacity: int | None = None,
        fpr: float,
        layout: str = "auto",
        seed: Seed = 0,
        key_form: str = "raw",
        metadata: dict[str, Any] | None = None,
        overfill: bool = False,
    ) -> Self:
        """Check what does not depend on the kind."""
        for name, text in (("kind", kind), ("layout", layout), ("key_form", key_form)):
            if not isinstance(text, str):
                raise ParameterTypeError(name, "a str", text)
        if not isinstance(overfill, bool):
            raise ParameterTypeError("overfill", "a bool", overfill)
        return super().__new__(
            cls,
            kind,
            None if capacity is None else check_capacity(capacity),
            check_fpr(fpr),
            layout,
            _chosen(seed),
            key_form,
            metadata,
            overfill,
        )

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        """Return how a copy is made: by name."""
        return (), self._asdict()

    def capacity_for(self, num_keys: int | None) -> int:
        """Return the capacity, or *num_keys* where none was asked for.

        Raises:
            ParameterTypeError: neither is known.
        """
        capacity = num_keys if self.capacity is None else self.capacity
        if capacity is None:
            raise ParameterTypeError("capacity", "an int", None)
        return max(1, capacity)

    def header_fields(self) -> dict[str, Any]:
        """Return what goes into the header as it is, and a new UUID and date."""
        return {
            "fpr": self.fpr,
            "seed": self.seed,
            "key_form": self.key_form,
            "metadata": self.metadata,
            "overfill": self.overfill,
            "uuid": os.urandom(16),
            "created_unix_ns": time.time_ns(),
        }


def _chosen(seed: Seed) -> int:
    """Return *seed*, or a random one. Numbers are checked where they get into a header."""
    if not isinstance(seed, str):
        return seed
    if seed != "random":
        raise ParameterError("seed", "0 to 2**64 - 1, or 'random'", seed)
    return int.from_bytes(os.urandom(8), "little")


def fresh(header: Header) -> Header:
    """Return the header of another filter with the same parameters.

    Features that this release does not know are dropped: it could not keep their promises.
    """
    return header._replace(
        uuid=os.urandom(16), created_unix_ns=time.time_ns(), compatible_features=0
    )


def creation_ns() -> int:
    """Return the date to store: SOURCE_DATE_EPOCH, for files that are to be the same bytes.

    Raises:
        ParameterError: SOURCE_DATE_EPOCH is not a number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return time.time_ns()
    if not epoch.isdecimal() or int(epoch) > _LAST_EPOCH:
        raise ParameterError("SOURCE_DATE_EPOCH", f"0 to {_LAST_EPOCH} seconds", epoch)
    return int(epoch) * 10**9


def content_uuid(header: Header, content: bytes) -> bytes:
    """Return a UUID made from the parameters of a file and *content*, which stands for its keys."""
    from hashlib import sha256  # OpenSSL takes long to load

    anonymous = header._replace(uuid=bytes(16), created_unix_ns=0)
    return sha256(content + anonymous.pack(Status())).digest()[:16]

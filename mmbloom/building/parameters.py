"""What a build is asked for: the filter, and what may be used to make it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from mmbloom.errors import ParameterError
from mmbloom.filters.fuse_payload import fuse_header
from mmbloom.filters.parameters import header_for
from mmbloom.sizing.fuse import plan_fuse

if TYPE_CHECKING:
    from mmbloom.filters.parameters import Seed
    from mmbloom.format.fuse import FuseShape
    from mmbloom.format.header import Header
    from mmbloom.storage.paths import FilePath

KINDS = ("bloom", "fuse", "counting")


class Parameters(NamedTuple):
    """What a filter file is built with; see ``build``."""

    fpr: float
    capacity: int | None = None
    layout: str = "auto"
    seed: Seed = 0
    key_form: str = "raw"
    metadata: dict[str, Any] | None = None
    kind: str = "bloom"

    def check(self) -> None:
        """Raise ParameterError if there is no such kind, or it does not go with the others."""
        if self.kind not in KINDS:
            raise ParameterError("kind", "bloom, fuse or counting", self.kind)
        if self.kind == "fuse" and self.capacity is not None:
            hint = "no key is ever added to it, so it is as large as its keys need"
            raise ParameterError("capacity", "None for kind fuse", self.capacity, hint)

    def bloom_header(self, num_keys: int) -> Header:
        """Return the header of a file of *num_keys* distinct keys, or of more if so asked for.

        For kind bloom or counting.
        """
        return header_for(
            kind=self.kind,
            capacity=num_keys if self.capacity is None else self.capacity,
            fpr=self.fpr,
            layout=self.layout,
            seed=self.seed,
            key_form=self.key_form,
            metadata=self.metadata,
        )

    def fuse_header(self, num_keys: int, shape: FuseShape) -> Header:
        """Return the header of a file of *num_keys* distinct keys in *shape*."""
        return fuse_header(
            shape,
            num_keys=num_keys,
            fpr=self.fpr,
            layout=self.layout,
            seed=self.seed,
            key_form=self.key_form,
            metadata=self.metadata,
        )

    def sample_header(self) -> Header:
        """Return the header of a file of one key: it says how keys are hashed.

        Raises:
            ParameterError, ParameterTypeError: naming the parameter.
        """
        self.check()
        if self.kind == "fuse":
            return self.fuse_header(1, plan_fuse(1, self.fpr, self.layout))
        return self.bloom_header(1)


class Resources(NamedTuple):
    """What a build may use; see ``build``."""

    memory: SupportsIndex | None = None
    jobs: SupportsIndex | None = None
    spill_folder: FilePath | None = None
    exact: bool = False
    resume: bool = False

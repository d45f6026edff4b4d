"""The pictures a search runs over, as arrays.

A library hands one out; tests and benchmarks build one by hand. It holds, it does not search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError, unknown
from limner.shapes import expect

if TYPE_CHECKING:
    from limner.retrieval.derived import Derived

HalfArray = NDArray[np.float16]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Space:
    """Vectors of one space for M pictures.

    Attributes:
        matrix: (M, D) float16 rows of unit length, often memory-mapped; rows of absent pictures
            are zero.
        present: (M,) True where the picture has a vector in this space.
        fingerprint: of the encoder that made them.
        derived: files that spare a search passes over the vectors; None where there are none.
    """

    matrix: HalfArray
    present: BoolArray
    fingerprint: str = ""
    derived: "Derived | None" = None


@dataclass(frozen=True)
class Gallery:
    """M pictures and their vectors.

    Attributes:
        ids: M picture ids, all different.
        groups: M near-duplicate group ids.
        spaces: space name → vectors.
    """

    ids: Sequence[str]
    groups: Sequence[str]
    spaces: dict[str, Space]

    def __post_init__(self) -> None:
        """Check that everything speaks of the same M pictures."""
        if len(self.ids) != len(self.groups):
            raise DataError(f"gallery: {len(self.ids)} ids but {len(self.groups)} groups")
        for name, space in self.spaces.items():
            sizes = expect(
                f"gallery space {name}", matrix=(space.matrix, "M D"), present=(space.present, "M")
            )
            if sizes["M"] != len(self.ids):
                raise DataError(f"gallery space {name}: {sizes['M']} rows for {len(self.ids)} ids")

    def __len__(self) -> int:
        """M, the number of pictures."""
        return len(self.ids)

    def space(self, name: str) -> Space:
        """The vectors of one space.

        Raises:
            DataError: the gallery has no such space.
        """
        if name not in self.spaces:
            raise DataError("gallery: " + unknown("space", name, self.spaces))
        return self.spaces[name]

"""Check array shapes by letter.

Letters are those of the whole project: N queries, M gallery, D joint width, K embeddings
per item, S steps, B batch. It checks; it never reshapes, pads or broadcasts.
"""

from typing import Protocol

from limner.errors import ShapeError


class HasShape(Protocol):
    """Anything with a shape: a NumPy array, a torch tensor, a memory map."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, outermost first."""
        ...


def expect(where: str, **arrays: tuple[HasShape, str]) -> dict[str, int]:
    """Check that arrays share the sizes their letters say.

    Args:
        where: the caller, for the message.
        arrays: name = (array, letters); letters are space separated, a number fixes a size.
            ``expect("search", queries=(q, "N D"), pictures=(v, "M D"))``.
    Returns:
        Letter → size.
    Raises:
        ShapeError: wrong number of axes, or one letter with two sizes.
    """
    sizes: dict[str, int] = {}
    for name, (array, letters) in arrays.items():
        axes = letters.split()
        found = tuple(array.shape)
        if len(found) != len(axes):
            raise ShapeError(f"{where}: {name} has shape {found}, expected ({', '.join(axes)})")
        for letter, size in zip(axes, found, strict=True):
            due = int(letter) if letter.isdigit() else sizes.setdefault(letter, size)
            if due != size:
                raise ShapeError(
                    f"{where}: {name} has shape {found}; its axis {letter} is {size}, expected {due}"
                )
    return sizes

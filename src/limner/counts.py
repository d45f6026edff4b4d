"""Numbers with their nouns, so that no message says "1 pictures"."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun: ``1 picture``, ``1,906 pictures``, ``0 near-duplicate groups``.

    Args:
        count: number, ≥ 0.
        noun: noun in the singular, with any words before it.
        plural: noun in the plural. Default: the singular with its regular ending.
    """
    if count == 1:
        return f"1 {noun}"
    if not plural:
        plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:,} {plural}"

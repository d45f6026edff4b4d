"""Numbers with their nouns, so that no message says "1 pictures"."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and its noun: ``1 picture``, ``1,906 pictures``, ``0 near-duplicate groups``.

    Args:
        count: how many, ≥ 0.
        noun: of one, with any words before it.
        plural: of several; unless given the noun with its usual ending.
    """
    if count == 1:
        return f"1 {noun}"
    if not plural:
        plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:,} {plural}"

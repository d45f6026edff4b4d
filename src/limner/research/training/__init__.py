"""Training: corpus, batches, loop, checkpoints and settings."""

NAMES_AND_PLACES = frozenset(
    {"row", "terms", "data.annotations", "data.pictures", "data.features", "data.glove"}
)
"""Settings for names and locations, which do not affect results."""

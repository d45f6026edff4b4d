"""From data and losses to a checkpoint."""

NAMES_AND_PLACES = frozenset(
    {"row", "terms", "data.annotations", "data.pictures", "data.features", "data.glove"}
    | {"data.features_from", "data.features_cache_gb"}
)
"""Settings that say what a run is called and where its files lie, which change no result."""

"""From data and losses to a checkpoint."""

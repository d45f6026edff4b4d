"""Words from a model that the user runs: what a picture shows, and what a picture of a step would show."""

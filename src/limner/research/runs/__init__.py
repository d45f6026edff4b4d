"""Trained runs: training, opening, selection on validation, measuring, and use as a library's encoder."""

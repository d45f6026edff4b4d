"""Trained runs: made, opened, chosen on validation, measured, and lent to a library as an encoder."""

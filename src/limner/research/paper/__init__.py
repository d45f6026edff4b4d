"""The published tables and figures, with their reference values."""

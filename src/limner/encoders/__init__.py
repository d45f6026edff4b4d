"""Encoders of pictures and texts."""

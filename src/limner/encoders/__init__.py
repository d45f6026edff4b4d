"""Pixels and words to vectors."""

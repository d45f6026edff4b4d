"""Texts, pictures and data sets: everything that reads files."""

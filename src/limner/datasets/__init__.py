"""Data sets: readers, splits, audits, features, neighbours, vocabularies, and how to get them."""

"""Turns a file or a string into a `Story`: steps, sections, and the pictures that the text itself shows."""

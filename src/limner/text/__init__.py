"""A file or a string becomes a `Story`: steps, sections, and the pictures that the text shows itself."""

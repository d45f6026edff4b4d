"""A file becomes a `Picture`: found, decoded, hashed, with its captions and metadata."""

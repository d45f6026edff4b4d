"""The picture library, search over it, and the storyboard."""

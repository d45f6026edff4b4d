"""What `import limner` offers: a library of pictures with its answers, and training."""

from limner.api.answers import Hits, Storyboard
from limner.api.library import Library
from limner.api.training import train

__all__ = ["Hits", "Library", "Storyboard", "train"]

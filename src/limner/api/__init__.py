"""What `import limner` offers: a library of pictures with its answers, and training."""

from limner.api.library import Library
from limner.api.results import Hits, Storyboard
from limner.api.training import train

__all__ = ["Hits", "Library", "Storyboard", "train"]

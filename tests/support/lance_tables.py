"""What a library of Lance tables contains."""


def content(library):
    """Every table as sorted rows."""
    tables = {}
    for name in library.store.names():
        columns = library.store._table(name).schema.names
        rows = [row for batch in library.store.scan(name, columns) for row in batch.to_pylist()]
        tables[name] = sorted(rows, key=str)
    return tables

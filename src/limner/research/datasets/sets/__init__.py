"""One file per data set, which registers a `limner.research.datasets.pairs.DataSet`."""

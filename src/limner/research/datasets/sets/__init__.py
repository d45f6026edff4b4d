"""One file per data set; each registers what it declares, see `limner.research.datasets.pairs.DataSet`."""

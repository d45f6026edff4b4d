"""One module per data set; each registers a `limner.research.datasets.registry.DataSet`."""

"""One file per data set."""

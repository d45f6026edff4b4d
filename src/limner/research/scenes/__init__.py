"""Scene graphs of pictures: object detectors, relations, and files of graphs."""

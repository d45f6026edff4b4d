"""Scene graphs of pictures: detectors, relations and their files."""

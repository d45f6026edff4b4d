"""Indexing by Ray in processes of its own: a cluster that stands until it is told to go, and runs on it."""

import os
import signal
import sys
from functools import partial
from pathlib import Path

from fakes import FakeImages, FakeTexts

from limner.scale import batches, ingest
from limner.scale.cluster import ClusterEngine, _connected


class DyingImages(FakeImages):
    """Ends its process the first time that it is to encode, and leaves a file that says so."""

    def __init__(self, mark):
        super().__init__()
        self.mark = Path(mark)

    def encode_pixels(self, batch):
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode_pixels(batch)


def encoders(kind, value):
    """One encoder, by the same words in every process."""
    if kind == "dying":
        return [DyingImages(value)]
    return [FakeImages(delay_s=float(value or 0))]


def stand():
    """Begin a cluster, say where it is, and end it with the standard input."""
    with _connected(None, 2) as ray:
        sys.stdout.write(f"{ray.get_runtime_context().gcs_address}\n")
        sys.stdout.flush()
        sys.stdin.read()


def fill(folder, library, address, kind="plain", value=""):
    """Index a folder and print the report."""
    batches.COMMIT_FILES = 32
    opened = partial(encoders, kind, value)
    engine = ClusterEngine(opened, address or None, 2)
    report = ingest.index([folder], library, image_encoders=opened(), text_encoder=FakeTexts(), engine=engine)
    sys.stdout.write(report.model_dump_json())


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # below nohup it is ignored, and a test sends it
    {"stand": stand, "fill": fill}[sys.argv[1]](*sys.argv[2:])

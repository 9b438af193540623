"""A load in a process of its own that is killed while one shard has committed and the other has not.

    python -m tests.support.shards_killed PIPELINE ROOT STEP

PIPELINE is a file with the pickled pipeline, ROOT the folder of the lake's root. The second shard's thread
stops after STEP; the process ends by SIGKILL when the first shard has committed.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from pathlib import Path

import sluice.crash_points
from sluice.clients.lake.folder import FolderLake
from sluice.crash_points import TableLoad
from sluice.flow.load.shards import load_shards
from tests.integration.landed import unit


def main() -> None:
    file, root, step = sys.argv[1:]
    pipeline, stopped = pickle.loads(Path(file).read_bytes()), threading.Event()

    def reached(point: object) -> None:
        # The pool's threads are named in the order of the pipeline file's shards.
        if threading.current_thread().name.endswith("_1") and point == TableLoad(step):
            stopped.set()
            threading.Event().wait()
        if threading.current_thread().name.endswith("_0") and point == TableLoad.COMMITTED:
            stopped.wait()
            os.kill(os.getpid(), signal.SIGKILL)

    sluice.crash_points.reached = reached
    load_shards(pipeline, pipeline.targets[0], [unit()], FolderLake(Path(root) / "p"), mode="reload")


if __name__ == "__main__":
    main()

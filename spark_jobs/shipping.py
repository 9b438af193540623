"""Brings the library to workers that do not share the driver's folders."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pyspark import SparkContext

import sluice


def ship(context: SparkContext) -> None:
    """Sends `sluice` along, unless Spark runs in this very process. Workers bring the packages it needs."""
    if context.master.startswith("local"):
        return
    package = Path(sluice.__file__).parent
    archive = Path(tempfile.mkdtemp(prefix="sluice-"), "sluice")
    context.addPyFile(shutil.make_archive(str(archive), "zip", package.parent, package.name))

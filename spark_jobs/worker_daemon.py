"""The process that Spark forks its Python workers from, where they run beside the driver.

It has imported what every worker needs: Spark's own daemon leaves that to each of them. As that one demands,
there is no second thread before a fork; pyarrow starts one, so the workers import it themselves.
Source: Spark 4.2, pyspark/daemon.py; `spark.python.daemon.module`.
"""

from __future__ import annotations

import unzipped  # noqa: F401

# isort: split
import numpy  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import sluice.clients.kafka.fetch
import sluice.config.pipeline  # noqa: F401

if __name__ == "__main__":
    manager()

"""Real Spark for tests of topics, in this process and with the settings that the application gets."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local.versions import ROOT, SPARK_JARS_DIR
from sluice.config.pipeline import Pipeline
from sluice.flow.land.submit import spark_submit_arguments
from tests.faults.topics import hours
from tests.support.landing_world import SPEC


@contextmanager
def spark_engine() -> Iterator[object]:
    """`spark_jobs/engine.py` on local[2]; it stops at the end."""
    pipeline = Pipeline.model_validate(SPEC)
    jars = {"SLUICE_SPARK_JARS": str(SPARK_JARS_DIR)}
    spec = spark_submit_arguments(pipeline, Path("x"), hours(0, 0), "fill", "t", jars)
    words = [word.replace("local[*]", "local[2]") for word in spec.options()]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spec.env_vars.items():
            patch.setenv(name, value)
        patch.setenv("PYSPARK_SUBMIT_ARGS", shlex.join([*words, "pyspark-shell"]))
        patch.syspath_prepend(str(ROOT / "spark_jobs"))
        from engine import SparkEngine

        with SparkEngine("tests", lambda line: None) as started:
            yield started

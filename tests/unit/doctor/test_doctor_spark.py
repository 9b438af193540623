from __future__ import annotations

import pytest

from sluice.doctor.check import Level
from sluice.doctor.spark import spark_packages


@pytest.mark.parametrize("installed", [(None, "4.2.0"), ("4.2.0", None), (None, None)])
def test_a_package_alone_overwrites_nothing(installed: tuple[str | None, str | None]):
    assert list(spark_packages(*installed)) == []


def test_two_of_one_version_are_one():
    (check,) = spark_packages("4.2.0", "4.2.0")
    assert (check.level, check.finding) == (Level.OK, "pyspark and pyspark-client 4.2.0")


@pytest.mark.parametrize("client", ["4.2.1", "4.1.0", "4.2.0.dev1"])
def test_two_versions_are_a_mixture_of_files(client: str):
    (check,) = spark_packages("4.2.0", client)
    assert check.level is Level.FAIL
    assert check.finding == f"pyspark is 4.2.0, and pyspark-client {client}"
    assert check.remedy.endswith(" pyspark-client==4.2.0 pyspark==4.2.0")

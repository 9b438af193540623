"""The main job's own tests, unchanged, with Spark on a cluster, the lake on S3 and two ClickHouse servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.users import WideUser
from tests.cluster.wide import Wide
from tests.integration.land.test_main_job import (  # noqa: F401
    TestOneClearLine,
    test_an_empty_topic_gives_complete_hours,
    test_bad_input_ends_where_the_contract_says,
    test_foreign_events_arrive_once_with_a_pipeline_file_alone,
    test_two_runs_of_the_same_hours_at_once,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def user(name: str, tmp_path: Path, cluster: Wide) -> WideUser:
    return WideUser(name, tmp_path, cluster)

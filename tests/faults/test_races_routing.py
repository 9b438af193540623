"""A table is added while its types sit in the catch-all: the old pipeline file races with the new one."""

from __future__ import annotations

import pytest

from tests.faults.published import CLICKS, OTHER
from tests.faults.race_world import Scene
from tests.faults.racers import race
from tests.faults.test_races import clickhouse_at
from tests.integration.landed import client_of
from tests.support.landing_world import hours

pytestmark = pytest.mark.faults

HOURS = 3


@pytest.mark.long
def test_a_table_is_added_while_its_types_sit_in_the_catch_all(clickhouse_server, tmp_path, fault_log):
    client, environment = client_of(clickhouse_server), clickhouse_at(clickhouse_server)
    old = Scene(f"file://{tmp_path}", "routed", client, environment, HOURS, lease="2s").make_tables()
    race(old.job(0, HOURS))
    old.expect_tables(hours(HOURS))
    new = old.named("routed", types=(CLICKS, "bid", OTHER))
    with fault_log.trial("race", "old and new pipeline file", times=4):
        race(*[new.job(0, HOURS), old.job(0, HOURS), new.job(1, HOURS - 1), old.job(0, HOURS, mode="reload")])
        # Whoever of the two came last: the new file's next run makes it right.
        race(new.job(0, HOURS))
        new.expect_lake(hours(HOURS))
        new.expect_tables(hours(HOURS))

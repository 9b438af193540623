"""Each GRANT that a refusal prints is pasted as it stands, and then the load does what it is asked for.

The embedded server keeps users in a file alone, so an administrator's GRANT goes into that file, by the very
words that were printed, and the server starts again."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from local.services import ClickHouseServer
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from sluice.errors import TargetRefused
from tests.integration.landed import World, client_of, event, land, unit
from tests.integration.load.test_rights import EXACT, PLAIN, TARGET, user
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration
LOGIN = "loader"
ENGINES = (
    "<clickhouse><access_control_improvements><table_engines_require_grant>false"
    "</table_engines_require_grant></access_control_improvements></clickhouse>"
)
ADDED = [("ALTER ADD COLUMN", "sluice.*")]
ELSEWHERE = [(right, "other.fed") for right in ("SELECT", "INSERT", "ALTER DELETE")]
VIEW = """CREATE MATERIALIZED VIEW other.v TO other.fed AS SELECT n, _slice, _cluster FROM events.clicks"""
FED = (
    "CREATE TABLE other.fed (n UInt16, _slice DateTime('UTC'), _cluster String) ENGINE = MergeTree ORDER BY n"
)


@dataclass(frozen=True)
class Lacking:
    """`without` is what the user lacks; `more` what else it has. `printed` are the rights of the GRANT."""

    printed: str
    without: tuple[tuple[str, str], ...] = ()
    more: tuple[tuple[str, str], ...] = ()
    made: tuple[str, ...] = ()
    evolves: bool = False


CASES = {
    "load": Lacking(
        "INSERT, ALTER DELETE ON `events`.`clicks`",
        (("INSERT", "events.clicks"), ("ALTER DELETE", "events.clicks")),
    ),
    "evolve": Lacking("ALTER ADD COLUMN ON `events`.`clicks`", more=tuple(ADDED), evolves=True),
    "view": Lacking(
        "SHOW COLUMNS ON `other`.`v`", more=tuple(ELSEWHERE), made=("CREATE DATABASE other", FED, VIEW)
    ),
}


def users(rights: list[tuple[str, str]]) -> str:
    default = f"<default><password/><profile>default</profile>{PLAIN}</default>"
    made = f"<users>{default}{user(LOGIN, rights)}</users>"
    return f"<clickhouse><profiles><default/></profiles>{made}</clickhouse>"


def paste(server: ClickHouseServer, statement: str) -> None:
    found = re.fullmatch(rf"(GRANT .+ ON .+) TO `{LOGIN}`", statement)
    assert found is not None, statement
    path = server.data / "users.xml"
    before = path.read_text()
    path.write_text(before.replace("</grants>", f"<query>{found[1]}</query></grants>"))
    assert path.read_text() != before
    server.kill()
    server.start()


def spread(rights: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Rights of `events.*` as those of its table, so that one may be left out."""
    return [(right, place.replace("events.*", "events.clicks")) for right, place in rights]


@pytest.mark.parametrize("case", per_commit(CASES.values()), ids=CASES)
def test_a_printed_grant_works_as_it_stands(start_clickhouse_server, tmp_path, case: Lacking):
    rights = [right for right in spread(EXACT) if right not in case.without]
    assert len(rights) == len(EXACT) - len(case.without)
    server = start_clickhouse_server(users=users([*rights, *case.more]), config=ENGINES)
    root = World(tmp_path, client_of(server), "events")
    for statement in ("CREATE DATABASE events", TARGET, *case.made):
        root.sql(statement)
    land(root.lake, unit(), [event(n=n, coupon=f"c{n}") for n in range(3)])
    evolve = {"evolve": "add", "evolve_rows": 1} if case.evolves else {}
    pipeline = root.pipeline({"click": {"table": "clicks", **evolve}}, clickhouse={"read": "push"})

    def load() -> None:
        place = Connection("x", host=server.host, port=server.port, login=LOGIN)
        World(tmp_path, open_client(place), "events").load(pipeline, unit())

    with pytest.raises(TargetRefused) as raised:
        load()
    found = re.search(rf"GRANT .+? TO `{LOGIN}`", str(raised.value))
    assert found is not None and found[0] == f"GRANT {case.printed} TO `{LOGIN}`"
    assert root.sql("SELECT count() FROM events.clicks") == [(0,)]
    paste(server, found[0])
    load()
    root = World(tmp_path, client_of(server), "events")
    assert root.sql("SELECT n FROM events.clicks ORDER BY n") == [(0,), (1,), (2,)]
    if case.evolves:
        assert root.sql("SELECT coupon FROM events.clicks ORDER BY n") == [("c0",), ("c1",), ("c2",)]
    if case.made:
        assert root.sql("SELECT n FROM other.fed ORDER BY n") == [(0,), (1,), (2,)]

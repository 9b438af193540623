"""The server reads a lake in S3 itself, through a named collection: no secret is in any statement."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from local import services
from sluice.clients.lake.open import open_lake_at
from sluice.clients.lake.s3 import S3Lake
from sluice.clients.lake.settings import S3Settings
from sluice.config.pipeline import Pipeline
from sluice.errors import Conservation, Refused
from tests.integration import s3_servers
from tests.integration.landed import World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

BUCKET = "lake"
CONFIG = """<clickhouse>
<named_collections>
  <lake><url>{url}/lake/</url><access_key_id from_env="S3_ACCESS_KEY"/>
    <secret_access_key from_env="S3_SECRET_KEY"/></lake>
  <elsewhere><url>{url}/elsewhere/</url><access_key_id>{key}</access_key_id>
    <secret_access_key>{secret}</secret_access_key></elsewhere>
</named_collections>
<query_log><database>system</database><table>query_log</table></query_log>
</clickhouse>"""
ODD_TYPES = ["plain", "a/b=c", "a+b & c<d>", "Größe 🎉", "per%cent", "what?*{}[1]", "it's \"\\ #x"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Settings]:
    with s3_servers.versitygw(tmp_path_factory.mktemp("versitygw")) as settings:
        s3_servers.make_bucket(settings, BUCKET)
        s3_servers.make_bucket(settings, "elsewhere")
        yield settings


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, store: S3Settings
) -> Iterator[services.ClickHouseServer]:
    config = CONFIG.format(url=store.endpoint_url, key=store.key, secret=store.secret)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("S3_ACCESS_KEY", store.key)
        patch.setenv("S3_SECRET_KEY", store.secret)
        made = services.clickhouse_server(tmp_path_factory.mktemp("clickhouse"), config=config)
    yield made
    made.kill()


@dataclass(frozen=True)
class S3World(World):
    """Below a prefix that only this test has."""

    settings: S3Settings

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/a b/{self.database}"

    @property
    def lake(self) -> S3Lake:
        return open_lake_at(self.url, "p", self.settings)

    def of(self, tables: list[str] | None = None, **clickhouse: str) -> Pipeline:
        routed = dict.fromkeys(tables or ["click"], "clicks")
        return self.pipeline(routed, lake=self.url, clickhouse=clickhouse)

    def numbers(self) -> list[int]:
        return [n for (n,) in self.sql("SELECT n FROM {db}.clicks ORDER BY n")]

    def statements(self) -> list[str]:
        """Everything that was done to this test's tables, as the server kept it."""
        self.sql("SYSTEM FLUSH LOGS")
        found = self.sql("SELECT query FROM system.query_log WHERE position(query, '{db}') > 0")
        return [query for (query,) in found]


@pytest.fixture
def world(server: services.ClickHouseServer, store: S3Settings, tmp_path: Path) -> Iterator[S3World]:
    made = S3World(tmp_path, client_of(server), f"s{uuid.uuid4().hex}", store)
    made.sql("CREATE DATABASE {db}")
    made.sql(
        "CREATE TABLE {db}.clicks (n UInt16, _type String, _slice DateTime('UTC'), "
        "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY n"
    )
    yield made
    made.sql("DROP DATABASE {db} SYNC")


@pytest.mark.parametrize(
    ("settings", "pulled"),
    per_commit(
        [
            ({"read": "pull", "named_collection": "lake"}, True),
            ({}, False),
            ({"named_collection": "lake"}, True),
            ({"read": "push", "named_collection": "lake"}, False),
            ({"named_collection": "elsewhere"}, False),
            ({"named_collection": "unknown"}, False),
        ],
        keep=2,
    ),
    ids=str,
)
def test_the_same_rows_either_way(world: S3World, settings: dict[str, str], pulled: bool):
    events = [event(kind, n=n) for n, kind in enumerate(ODD_TYPES)]
    for hour in (0, 1):
        land(world.lake, unit(hour), events)
    world.load(world.of(ODD_TYPES, **settings), unit(0), unit(1))
    found = world.sql("SELECT _type, n, count(), uniqExact(_slice) FROM {db}.clicks GROUP BY 1, 2 ORDER BY n")
    assert found == [(kind, n, 2, 2) for n, kind in enumerate(ODD_TYPES)]
    inserted = [query for query in world.statements() if query.startswith("INSERT")]
    assert any("s3(" in query for query in inserted) is pulled


def test_no_secret_is_in_what_the_server_keeps_of_statements(world: S3World, store: S3Settings):
    land(world.lake, unit(), [event(n=1)])
    sent: list[str] = []
    spied = S3World(world.root, Spy(world.client, sent.append), world.database, store)
    spied.load(world.of(read="pull", named_collection="lake"), unit())
    assert world.numbers() == [1]
    kept = Counter(query.split("(")[0].split()[-1] for query in world.statements() if " s3(" in query)
    assert kept["s3"] > 0
    assert any("s3(`lake`" in text for text in sent)
    for text in [*sent, *world.statements()]:
        assert store.secret not in text and store.key not in text and store.endpoint_url not in text


class Spy:
    """A client that tells every statement and its parameters: what system.processes shows while it runs."""

    def __init__(self, client: object, tell: Callable[[str], None]) -> None:
        self._client, self._tell = client, tell

    def __getattr__(self, name: str) -> object:
        found = getattr(self._client, name)
        if name == "reading":
            return lambda settings: Spy(found(settings), self._tell)
        if name not in ("rows", "run"):
            return found

        def told(*given: object, **named: object) -> object:
            self._tell(f"{given} {named}")
            return found(*given, **named)

        return told


def test_an_object_that_is_missing_stops_the_load(world: S3World):
    manifest = land(world.lake, unit(), [event(n=1), event("view", n=2)])
    world.lake.delete([manifest.files[1].key])
    said = f"lake file {manifest.files[1].key} .*`sluice run .* --mode reland` writes it"
    with pytest.raises(Conservation, match=said):
        world.load(world.of(["click", "view"], read="pull", named_collection="lake"), unit())
    assert world.numbers() == []


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({}, "name its named collection in `named_collection`"),
        ({"named_collection": "elsewhere"}, "with the bucket's URL"),
        ({"named_collection": "unknown"}, "grant it to the user"),
    ],
    ids=str,
)
def test_pull_is_refused_where_the_server_does_not_see_the_lake(
    world: S3World, settings: dict[str, str], remedy: str
):
    land(world.lake, unit(), [event(n=1)])
    with pytest.raises(Refused, match=remedy):
        world.load(world.of(read="pull", **settings), unit())
    assert world.numbers() == []

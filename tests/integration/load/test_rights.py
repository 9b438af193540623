"""The rights that docs/guide/production.md lists for ClickHouse's user: they are enough, and none is idle."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from local import services
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.shards import ALONE
from sluice.clients.connections import Connection
from sluice.clients.lake.settings import S3Settings
from sluice.errors import Refused, TargetRefused
from sluice.flow.contents.compare_tables import Comparing
from sluice.flow.contents.staged_load import Stage
from sluice.flow.load.work import work_for
from sluice.flow.verify.read_tables import SliceSpan, read_target
from sluice.flow.verify.repairs import Repairs
from sluice.slices import SliceRange
from sluice.state.ledger import committed
from tests.integration.landed import START, World, event, land, unit
from tests.integration.load.test_load_s3 import CONFIG, S3World, store
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration
assert store

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs/guide/production.md").read_text()
SQL = ROOT / "include" / "sql"
TARGET = """CREATE TABLE events.clicks (n UInt16, size UInt32 DEFAULT 7, _type String,
_slice DateTime('UTC'), _cluster LowCardinality(String))
ENGINE = MergeTree PARTITION BY toDate(_slice) ORDER BY n"""
VIEW = """CREATE MATERIALIZED VIEW events.seen ENGINE = MergeTree ORDER BY n
AS SELECT n, _slice, _cluster FROM events.clicks"""
PROJECTION = "ALTER TABLE events.clicks ADD PROJECTION p (SELECT n ORDER BY n)"
ACCESS_DENIED = 497
Right = tuple[str, str]


def granted(block: str) -> list[Right]:
    """Each single right and its place, of the GRANT statements of one block."""
    found = re.findall(r"GRANT (.+?) ON (\S+) TO sluice;", block)
    return [(right, place) for rights, place in found for right in rights.split(", ")]


[EXACT, BESIDE, CLOUD, PULL] = [rights for block in re.split(r"\n\n", DOCUMENT) if (rights := granted(block))]
assert CLOUD == [("REMOTE", "*.*"), ("CLUSTER", "*.*")]
PLAIN = "<networks><ip>127.0.0.1</ip></networks>"


def user(name: str, rights: list[Right]) -> str:
    grants = "".join(f"<query>GRANT {right} ON {place}</query>" for right, place in rights)
    return f"<{name}><password/><profile>default</profile>{PLAIN}<grants>{grants}</grants></{name}>"


def without(rights: list[Right], left_out: Right) -> list[Right]:
    return [right for right in rights if right != left_out]


@dataclass(frozen=True)
class Guarded:
    """A server whose user `all` has every right of a plain load, `puller` those of pulling too; `less<n>` and
    `blind<n>` each lack one of them."""

    server: services.ClickHouseServer

    def client(self, login: str):
        return open_client(Connection("x", host=self.server.host, port=self.server.port, login=login))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, store: S3Settings) -> Iterator[Guarded]:
    users = [user("all", EXACT), user("puller", EXACT + PULL), user("everything", EXACT + BESIDE + PULL)]
    users += [user(f"less{n}", without(EXACT, right)) for n, right in enumerate(EXACT)]
    users += [user(f"blind{n}", EXACT + without(PULL, right)) for n, right in enumerate(PULL)]
    default = f"<default><password/><profile>default</profile>{PLAIN}</default>"
    text = f"<clickhouse><profiles><default/></profiles><users>{default}{''.join(users)}</users></clickhouse>"
    engines = "<table_engines_require_grant>false</table_engines_require_grant>"
    more = f"<access_control_improvements>{engines}</access_control_improvements></clickhouse>"
    config = CONFIG.format(url=store.endpoint_url, key=store.key, secret=store.secret)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("S3_ACCESS_KEY", store.key)
        patch.setenv("S3_SECRET_KEY", store.secret)
        folder = tmp_path_factory.mktemp("clickhouse")
        made = services.clickhouse_server(folder, users=text, config=config.replace("</clickhouse>", more))
    yield Guarded(made)
    made.kill()


def begin(guarded: Guarded, *more: str) -> None:
    """From nothing: the target, and none of Sluice's own tables."""
    root = guarded.client("default")
    root.run("DROP DATABASE IF EXISTS sluice SYNC")
    root.run("DROP DATABASE IF EXISTS events SYNC")
    root.run("CREATE DATABASE events")
    for statement in (TARGET, *more):
        root.run(statement)


def cycle(guarded: Guarded, login: str) -> None:
    """A load with a rejected row, a reload, a slice landed again, and what verify looks at, contents too."""
    world = World(Path(tempfile.mkdtemp()), guarded.client(login), "events")
    pipeline = world.pipeline({"click": "clicks"}, clickhouse={"read": "push"})
    land(world.lake, unit(), [event(n=1), event(n="x"), event(n=2)])
    world.load(pipeline, unit())
    world.load(pipeline, unit(), mode="reload")
    manifest = land(world.lake, unit(), [event(n=5), event(n="x")], generation=2)
    world.load(pipeline, unit())
    target = pipeline.targets[0]
    works = [work_for(pipeline, target, unit(), manifest, True)]
    contents = Comparing(Stage(world.client, pipeline, target, world.lake, ALONE), Repairs("p")).check(works)
    assert (contents.anomalies, contents.rows) == ([], 1)
    ledger = committed(world.client, pipeline, world.lake.url, target)
    span = SliceSpan.of(SliceRange(START, START.add(hours=1)))
    held = read_target(world.client, pipeline, target, ledger, span)
    assert held.rows == {unit(): {"click": 1}}
    assert world.sql("SELECT n FROM {db}.clicks") == [(5,)]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((VIEW,), id="view"),
        pytest.param((), id="plain", marks=pytest.mark.long),
        pytest.param((PROJECTION,), id="projection", marks=pytest.mark.long),
    ],
)
def test_the_listed_rights_are_enough(guarded: Guarded, more: tuple[str, ...]):
    begin(guarded, *more)
    cycle(guarded, "all")


@pytest.mark.parametrize(
    "number", per_commit(range(len(EXACT)), 4), ids=[f"{right} ON {place}" for right, place in EXACT]
)
def test_each_of_them_is_needed(guarded: Guarded, number: int):
    begin(guarded)
    with pytest.raises((ServerError, TargetRefused)) as raised:
        cycle(guarded, f"less{number}")
    right, place = EXACT[number]
    assert getattr(raised.value, "code", ACCESS_DENIED) == ACCESS_DENIED
    wanted = rf"(?i)grant .*\b{right.split()[0]}\b.* ON {place.removesuffix('*')}"
    assert re.search(wanted, str(raised.value).replace("`", ""))
    assert not raised.value.retryable


def test_adding_columns_needs_a_right_of_its_own(guarded: Guarded):
    """Without it nothing is changed, and the GRANT is named."""
    begin(guarded)
    world = World(Path(tempfile.mkdtemp()), guarded.client("all"), "events")
    target = {"table": "clicks", "evolve": "add", "evolve_rows": 1}
    pipeline = world.pipeline({"click": target}, clickhouse={"read": "push"})
    land(world.lake, unit(), [event(n=1, coupon="a")])
    with pytest.raises(TargetRefused, match="GRANT ALTER ADD COLUMN ON `events`.`clicks`"):
        world.load(pipeline, unit())
    root = guarded.client("default")
    assert root.rows("SELECT count() FROM events.clicks") == [(0,)]
    assert "coupon" not in [row[0] for row in root.rows("DESCRIBE events.clicks")]
    world = World(world.root, guarded.client("everything"), "events")
    world.load(pipeline, unit())
    assert world.sql("SELECT n, coupon FROM {db}.clicks") == [(1, "a")]


def test_defaults_that_use_other_columns_need_rights_of_their_own(guarded: Guarded):
    """Without them nothing is changed, and the GRANT is named."""
    begin(guarded, "ALTER TABLE events.clicks MODIFY COLUMN size UInt32 DEFAULT intDiv(12, n)")
    world = World(Path(tempfile.mkdtemp()), guarded.client("all"), "events")
    pipeline = world.pipeline({"click": "clicks"}, clickhouse={"read": "push"})
    land(world.lake, unit(), [event(n=0, size=5), event(n=3)])
    with pytest.raises(ServerError, match=r"grant ALTER ADD COLUMN.*ON sluice\.") as raised:
        world.load(pipeline, unit())
    assert not raised.value.retryable
    assert guarded.client("default").rows("SELECT count() FROM events.clicks") == [(0,)]
    world = World(world.root, guarded.client("everything"), "events")
    world.load(pipeline, unit())
    assert sorted(world.sql("SELECT n, size FROM {db}.clicks")) == [(0, 5), (3, 4)]


@pytest.mark.parametrize("lacking", per_commit([None, *range(len(PULL))]))
def test_the_rights_of_pulling(guarded: Guarded, store: S3Settings, tmp_path: Path, lacking: int | None):
    begin(guarded)
    login = "puller" if lacking is None else f"blind{lacking}"
    world = S3World(tmp_path, guarded.client(login), "events", store)
    place = unit(0 if lacking is None else 1 + lacking)  # the lake is the same for all
    land(world.lake, place, [event(n=7)])
    with nullcontext() if lacking is None else pytest.raises(Refused, match="grant it to the user"):
        world.load(world.of(read="pull", named_collection="lake"), place)
    assert world.numbers() == ([7] if lacking is None else [])


def test_the_others_are_rights_that_the_server_knows(guarded: Guarded):
    """They are what all statements of include/sql read of the server beside that."""
    begin(guarded)
    client = guarded.client("everything")
    for right, place in BESIDE:
        assert client.rows(f"CHECK GRANT {right} ON {place}") == [[1]], (right, place)
    read = {
        f"system.{name}"
        for path in SQL.glob("*/*.sql")
        for name in re.findall(r"system\.(\w+)", path.read_text())
    }
    read |= {"system.processes", "system.mutations"}  # KILL QUERY and KILL MUTATION look there
    open_to_all = {
        "system.columns",
        "system.databases",
        "system.functions",
        "system.settings",
        "system.tables",
    }
    assert read - open_to_all == {place for _, place in EXACT + BESIDE if place.startswith("system.")}

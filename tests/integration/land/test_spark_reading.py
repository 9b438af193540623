"""How Spark reads Kafka for us: by the short way through its source, with workers that start quickly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pyspark
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pydantic import SecretStr
from pyspark import SparkContext, cloudpickle

from sluice.clients.lake.base import Lake
from sluice.clients.lake.s3 import S3Lake
from sluice.clients.lake.settings import S3Settings
from sluice.config.mask import MaskRule
from sluice.config.pipeline import Pipeline
from sluice.errors import SparkFailed
from sluice.flow.land.formats.registry import Address
from sluice.flow.land.merge import Merge, Total
from sluice.flow.land.task.decode import Decoding
from sluice.flow.land.task.task import Task
from sluice.mask.mask_rules import KeyedRule, MaskKey, MaskRules
from tests.support.fakes import MemoryLake
from tests.support.spark_world import PLAIN

pytestmark = pytest.mark.integration

SENT = [
    {"value": b"one", "key": b"k", "timestamp": 1_767_225_600_123},
    {"value": None, "key": None, "timestamp": 1_767_225_600_124},
    {"value": b"\xff\x00", "headers": [("a", b"1"), ("a", None), ("b", b"")], "timestamp": 1},
]


SECRETS = (
    "of-the-lake",
    "of-the-session",
    "of-the-registry",
    "of-the-mask",
    "of-kafka",
    "of-the-file",
    "of-a-channel",
)


HOLDERS = {Any, Lake, Pipeline, Decoding, MaskRules, MaskKey, Address, S3Settings, SecretStr}
"""Types that may hold a secret."""


@pytest.fixture(scope="module")
def session(engine: Any) -> Any:
    return engine.session()


@pytest.fixture
def records(session, kafka_broker, name) -> Any:
    """A frame of SENT and as many again, as Spark's own reader makes it."""
    topic = {"bootstrap.servers": kafka_broker, "log_level": 0}
    admin = AdminClient(topic)
    admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "-1"})])[name].result(30)
    producer = Producer(topic)
    for number, message in enumerate(SENT * 2):
        producer.produce(name, partition=number // len(SENT), **message)
    assert producer.flush(30) == 0
    options = {"kafka.bootstrap.servers": kafka_broker, "subscribe": name, "includeHeaders": "true"}
    return session.read.format("kafka").options(**options).load()


@pytest.mark.long
def test_the_short_way_brings_the_same_records(records, name):
    from kafka_source import straight

    short = straight(records)
    assert short.schema == records.schema
    order = ("partition", "offset")
    found = short.orderBy(*order).collect()
    assert found == records.orderBy(*order).collect()
    assert [row.value for row in found] == [message["value"] for message in SENT] * 2
    assert [row.key for row in found] == [message.get("key") for message in SENT] * 2
    assert {row.topic for row in found} == {name}
    headers = [[tuple(header) for header in row.headers or ()] for row in found]
    assert headers == [message.get("headers", []) for message in SENT] * 2


def test_the_short_way_is_there_and_leaves_out_the_detour(records):
    """Were it lost with another Spark, nothing would fail, and every read would take longer."""
    from kafka_source import straight

    plan = straight(records)._jdf.queryExecution().executedPlan().toString()
    assert "Scan ExistingRDD kafka[" in plan
    assert "KafkaRelation" in records._jdf.queryExecution().executedPlan().toString()


def test_a_frame_that_is_not_kafkas_is_left_alone(session, tmp_path):
    from kafka_source import straight

    session.range(3).write.parquet(str(tmp_path / "numbers"))
    for frame in (session.range(3), session.read.parquet(str(tmp_path / "numbers"))):
        assert straight(frame) is frame


def test_workers_come_with_pyspark_from_its_package_and_the_library(session):
    def seen(_: Any) -> Iterator[tuple[str, bool, str | None]]:
        import os
        import sys

        threads = os.environ.get("OPENBLAS_NUM_THREADS")
        yield sys.modules["pyspark"].__file__, "sluice.config.pipeline" in sys.modules, threads

    (found,) = session.sparkContext.parallelize([0], 1).mapPartitions(seen).collect()
    assert found == (str(Path(pyspark.__file__)), True, "1")


def test_what_spark_knows_of_its_stages_without_its_interface(session):
    """Four tasks give three what they read; the two stages are the newest."""
    from stages import read_stages

    assert session.conf.get("spark.ui.enabled") == "false"
    context = session.sparkContext
    pairs = context.parallelize(range(700), 4).map(lambda number: (number % 7, "x" * 100))
    assert pairs.groupByKey(3).count() == 7
    reduced, mapped = read_stages(context)[:2]
    assert [(one.tasks, one.failed, one.spilled) for one in (mapped, reduced)] == [(4, 0, 0), (3, 0, 0)]
    assert mapped.shuffled > 0 and reduced.shuffled == 0
    assert all(0 < one.seconds < 600 and one.task_seconds > 0 for one in (mapped, reduced))


def test_no_secret_is_in_a_file_of_sparks(engine, monkeypatch):
    """Spark writes what is parallelized into a file, and by default a function of more than a megabyte."""
    context, parallelized = engine.session().sparkContext, []
    parallelize = SparkContext.parallelize

    def noted(self: SparkContext, works: list[Task], tasks: int) -> Any:
        parallelized.append(cloudpickle.dumps(works))
        return parallelize(self, works, tasks)

    monkeypatch.setattr(SparkContext, "parallelize", noted)
    lake, session, registry, mask, kafka, in_file, channel = SECRETS
    notifier = {"notifier": "a.B", "arguments": {"bearer": channel}}
    masked = {"n": {"hash": f"{in_file} in 16 characters"}}
    task = Task(
        pipeline=Pipeline.model_validate({**PLAIN, "mask": masked, "alarms": {"notify": [notifier]}}),
        lake=S3Lake("b", "x/", S3Settings(key="k", secret=lake, token=session)),
        cluster="c",
        attempt="a",
        slices=(),
        edges={},
        decoding=Decoding("avro", b"x" * (4 << 20), registry=Address("http://r", "u", registry)),
        mask=MaskRules({"n": KeyedRule(MaskRule(drop=True), (MaskKey(mask.encode()),))}, {}),
    )
    blocks = context._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs()
    folders, secrets = [context._temp_dir, *(str(folder) for folder in blocks)], SECRETS

    def seen(part: Task, _name: str) -> bytes:
        known = cloudpickle.dumps([part, kafka])
        files = [path for folder in folders for path in Path(folder).rglob("*") if path.is_file()]
        contents = [path.read_bytes() for path in files]
        return repr([(s.encode() in known, any(s.encode() in c for c in contents)) for s in secrets]).encode()

    (told,) = engine._each(seen, [task], 1, "read")
    assert told == repr([(True, False)] * len(SECRETS)).encode()
    assert not [secret for secret in SECRETS if secret.encode() in parallelized[0]]


@pytest.mark.parametrize("work", [Task, Merge, Total])
def test_what_may_be_in_a_file_of_sparks_has_no_place_for_a_secret(engine, work):
    """A new part of a work is kept in memory until it is listed, and refused here when it may hold one."""
    from engine import _OWN

    own = {name: hint for name, hint in get_type_hints(work, include_extras=True).items() if name in _OWN}
    assert own and not [name for name, hint in own.items() if HOLDERS & {*types_in(hint)}]
    assert HOLDERS & {kind for hint in get_type_hints(work).values() for kind in types_in(hint)}


def types_in(hint: Any) -> Iterator[Any]:
    """Yields a hint's types, and those of their fields."""
    yield hint
    if hint in HOLDERS:
        return
    for argument in get_args(hint):
        yield from types_in(argument)
    if isinstance(hint, type) and is_dataclass(hint):
        for inner in get_type_hints(hint).values():
            yield from types_in(inner)


def test_works_that_differ_in_what_travels_once_are_refused(engine):
    merges = [Merge(MemoryLake(), "a", ()), Merge(MemoryLake(), "a", ())]
    with pytest.raises(SparkFailed, match="differ"):
        engine.merge(merges)

"""Offsets without records, through real Spark: compaction, transactions, and what nothing explains."""

from __future__ import annotations

from types import SimpleNamespace

import pendulum
import pytest
from confluent_kafka import TopicPartition

from local.readiness import wait_until
from sluice.clients.lake.open import open_lake
from sluice.errors import CompactedAway, Conservation, NotAllLanded
from sluice.flow.steps import rule_lines
from sluice.state.survey import survey
from tests.faults.topic_story import PlainEngine, Story
from tests.faults.topics import CLUSTER, HOURS, SECONDS, START, Topic, hours, visible
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults
# So small, and so soon, that the broker's cleaner takes whatever lies before the last record.
COMPACTED = {
    "cleanup_policy": "compact",
    "segment_ms": 50,
    "min_cleanable_dirty_ratio": 0.01,
    "max_compaction_lag_ms": 50,
}
ALONE = (0, 4, 13, 27)


@pytest.fixture(scope="module", autouse=True)
def compacting(kafka_broker) -> Topic:
    """A compacted topic that the broker's cleaner works on while other tests run: it comes by every 15 s.

    Record n is in hour n // 10. Those of ALONE have a key of their own, the others one together: of them
    only the last is left.
    """
    topic = Topic(kafka_broker, f"compacting_{pendulum.now().int_timestamp}").make(**COMPACTED)
    for n in range(30):
        topic.send(n, at=n / 10 + 0.05, key=b"%d" % n if n in ALONE else b"others")
    return topic


@pytest.fixture
def at_night(monkeypatch) -> None:
    """The clock is eight hours ahead, for the product; the broker stamps its markers with the real time."""
    real = pendulum.now
    monkeypatch.setattr(pendulum, "now", lambda tz=None: real(tz).add(hours=8))


@pytest.fixture
def transactional(kafka_broker, name) -> Topic:
    patience = {"transaction.timeout.ms": 600_000}  # one stays open while an hour lands
    topic = Topic(kafka_broker, name, **{"transactional.id": name}, **patience)
    topic.make(message_timestamp_after_max_ms=10**15)
    topic.producer.init_transactions(SECONDS)
    return topic


def transaction(topic: Topic, commit: bool, *records: tuple[int, float]) -> None:
    """Sends (number, hour) each, and waits until the marker is written, which is after the answer."""
    end = topic.state().ends[0] + len(records) + 1
    topic.producer.begin_transaction()
    for n, at in records:
        topic.send(n, at=at)
    topic.producer.commit_transaction(SECONDS) if commit else topic.producer.abort_transaction(SECONDS)
    wait_until(lambda: topic.state().ends[0] == end, f"the marker at {end - 1}", SECONDS)


@pytest.mark.parametrize("isolation", per_commit(["read_committed", "read_uncommitted"]))
def test_transactions(
    transactional, clickhouse_server, tmp_path, monkeypatch, at_night, engine, fault_log, isolation
):
    """Committed and aborted ones, one over an hour's edge, one that is open when its hour is resolved."""
    story = Story(transactional, tmp_path, clickhouse_server, monkeypatch, isolation=isolation)
    plain = Topic(transactional.bootstrap, transactional.name)
    with fault_log.trial("fault", f"transactions, {isolation}", victim="topic"):
        transaction(transactional, True, (1, 8.5), (2, 8.6))
        transaction(transactional, False, (3, 8.7), (4, 8.8))
        transaction(transactional, True, (5, 8.9), (6, 9.1))
        transaction(transactional, False, (7, 9.2), (8, 9.3))
        transactional.producer.begin_transaction()
        transactional.send(9, at=9.4)
        plain.send(10, at=9.5)
        story.run(8, 9, engine=engine)
        transactional.sent |= plain.sent
        seen = isolation == "read_uncommitted"
        first = {8: [1, 2, *((3, 4) if seen else ()), 5], 9: [6, *((7, 8, 9, 10) if seen else ())]}
        story.expect(first)
        transactional.producer.commit_transaction(SECONDS)
        wait_until(lambda: transactional.state().ends[0] == 15, "the last marker", SECONDS)
        transaction(transactional, True, (11, 10.5), (12, 11.5))
        story.run(8, 11, engine=engine)
        last = {10: [11] if seen else [9, 10, 11], 11: [12]}
        story.expect({**first, **last})
        assert story.states(8, 11) == ["complete"] * 4
        story.run(8, 11, "reland", engine=engine)
        story.expect({**first, **last})
        story.write(isolation="read_committed" if seen else "read_uncommitted")
        story.land(8, 11, "reland", engine, token="edited")
        story.load(8, 11)
        story.verify(8, 11)
        story.expect({**first, **last})
        [line] = rule_lines(story.pipeline, open_lake(story.pipeline), survey(story.pipeline, hours(8, 11)))
        assert line.startswith("4 units have another `kafka.isolation` than the pipeline file (")
        story.run(8, 11, "remake", engine=engine)
        story.expect({**first, **last})


def test_markers_have_a_time_of_their_own(
    transactional, clickhouse_server, tmp_path, monkeypatch, at_night, fault_log
):
    """Old events in transactions: the first marker is stamped now, and ends every hour before. What
    follows it is late, and comes once, with the hour in which the marker was written."""
    wait_until(lambda: pendulum.now("UTC").minute < 59, "the next hour", 90)
    story = Story(transactional, tmp_path, clickhouse_server, monkeypatch)
    with fault_log.trial("fault", "markers with a time of their own", victim="topic"):
        transaction(transactional, True, (1, 0.5), (2, 0.6))
        transaction(transactional, False, (3, 0.7))
        transaction(transactional, True, (4, 1.5), (5, 2.5))
        written = (pendulum.now("UTC").subtract(hours=8) - START).in_hours()
        plain = Topic(transactional.bootstrap, transactional.name)
        plain.send(6, at=0.8)
        plain.send(7, at=written + 1.5)
        transactional.sent |= plain.sent
        story.run(0, written + 1)
        places = {0: [1, 2], written: [4, 5, 6], written + 1: [7]}
        story.expect(places)
        story.run(0, written + 1, "reland")
        story.expect(places)


@pytest.mark.long
def test_what_neither_compaction_nor_a_transaction_explains(
    kafka_broker, clickhouse_server, name, tmp_path, monkeypatch, fault_log
):
    topic = Topic(kafka_broker, name).make()
    topic.send(*range(6), at=0.5)
    story = Story(topic, tmp_path, clickhouse_server, monkeypatch)
    story.resolve(0, 0)
    with fault_log.trial("fault", "a record that is not brought", victim="topic"):
        with pytest.raises(Conservation, match=r"\[2, 4\) of dc1/\w+/0 Spark read 0 .* a plain consumer 2"):
            story.land(0, 0, engine=PlainEngine(story.pipeline, hidden=[2, 3]))
        story.run(0, 0)
        story.expect({0: range(6)})


@pytest.mark.long
def test_compaction(compacting, clickhouse_server, tmp_path, monkeypatch, engine, fault_log):
    """What is left lands, in the hour of its boundaries. Were the topic not compacted, records were lost."""
    story = Story(compacting, tmp_path, clickhouse_server, monkeypatch)
    with fault_log.trial("fault", "compaction", victim="topic"):
        for n in (30, 31):  # the last segment is never compacted
            compacting.send(n, at=4.5, key=b"last")
        wait_until(
            lambda: set(range(30)) & {*left(compacting)} == {*ALONE, 29}, "the cleaner", SECONDS, poll=0.5
        )
        # Hour 1 ends where the first record of hour 2 that is left begins.
        expected = {0: [0, 4], 1: [13], 2: [27, 29], 4: [n for n in left(compacting) if n >= 30]}
        story.resolve(0, HOURS - 1)
        compacting.configure(cleanup_policy="delete")
        with pytest.raises(NotAllLanded, match="neither compaction nor a transaction"):
            story.land(0, HOURS - 1, engine=engine)
        compacting.configure(cleanup_policy="compact")
        story.run(0, HOURS - 1, engine=engine)
        story.expect(expected)


@pytest.mark.long
def test_compaction_after_the_hour_has_landed(
    kafka_broker, clickhouse_server, name, tmp_path, monkeypatch, fault_log
):
    topic = Topic(kafka_broker, name).make(cleanup_policy="delete")
    topic.send(*range(8), at=0.5, key=b"same")
    story = Story(topic, tmp_path, clickhouse_server, monkeypatch)
    story.run(0, 0)
    with fault_log.trial("fault", "compaction after the hour has landed", victim="topic"):
        topic.configure(**COMPACTED)
        topic.send(8, 9, at=1.5, key=b"same")
        wait_until(lambda: left(topic)[0] > 6, "the cleaner", SECONDS, poll=0.5)
        with pytest.raises(CompactedAway, match=r"the lake holds 8 records of .*, Kafka only 1 after"):
            story.land(0, 0, "reland", token="again")
        story.run(0, 0, "reload")
        story.expect({0: range(8)})


def left(topic: Topic) -> list[int]:
    """The numbers of the records that a consumer is still shown."""
    cluster = SimpleNamespace(cluster=CLUSTER, bootstrap=topic.bootstrap, isolation="read_committed")
    offsets = {sent.offset: n for n, sent in topic.sent.items()}
    return [offsets[m.offset()] for m in visible(cluster, TopicPartition(topic.name, 0, 0))]

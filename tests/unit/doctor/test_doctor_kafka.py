"""What the doctor says of a topic, from what a broker may answer."""

from __future__ import annotations

from datetime import timedelta

import pendulum
import pytest

from sluice.clients.kafka.topic_facts import PartitionFacts, TopicFacts
from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Area, Check, Level, exit_code, failed, guarded
from sluice.doctor.clickhouse import Replica, replica_checks, version_check
from sluice.doctor.kafka import topic_checks
from sluice.errors import KafkaUnavailable, TargetRefused, UnknownTopic

NOW = pendulum.datetime(2026, 11, 20, 12)
SINCE = NOW.subtract(days=2)
DAY_MS = 86_400_000
SOUND = {
    "retention.ms": str(30 * DAY_MS),
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
    "cleanup.policy": "delete",
}


def pipeline(**more) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "kafka": [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["bids"]}],
            "event": {"type": {"field": "type"}, "time": {"record": True}},
            "lake": "file:///lake",
            **more,
        }
    )


def stamp(**ago: float) -> int:
    return int((NOW - timedelta(**ago)).timestamp() * 1000)


def checks(settings=SOUND, rights=frozenset({"READ", "DESCRIBE"}), partitions=None, offline=0, **more):
    given = partitions or {0: PartitionFacts(0, 10, stamp(days=5), 1000)}
    facts = TopicFacts("dc1", "bids", 3, offline, rights, settings, given)
    return list(topic_checks(pipeline(**more), facts, SINCE, NOW))


def only(found: list[Check], level: Level) -> list[str]:
    return [f"{c.finding}; {c.remedy}" for c in found if c.level is level]


def test_a_sound_topic():
    found = checks()
    assert only(found, Level.FAIL) == only(found, Level.WARN) == []
    assert "1 partitions, 3 replicas, 10 offsets" in found[0].finding


def test_no_right_to_read_says_the_command_that_gives_it():
    (said,) = only(checks(rights=frozenset({"DESCRIBE"})), Level.FAIL)
    assert "no right to READ" in said
    assert "kafka-acls --add --allow-principal User:… --operation Read --topic bids" in said


def test_a_broker_that_keeps_rights_to_itself_is_believed_when_a_record_could_be_read():
    assert only(checks(rights=None), Level.FAIL) == []
    (said,) = only(checks(rights=None, partitions={4: PartitionFacts(0, 10)}), Level.WARN)
    assert "partition 4 gave no record" in said


def test_records_that_have_expired_within_the_range():
    """Partition 1 begins 90 minutes before 12:00, so 11:00 is the first whole hour."""
    partitions = {0: PartitionFacts(0, 9, stamp(days=5)), 1: PartitionFacts(700, 900, stamp(minutes=90))}
    (said,) = only(checks(partitions=partitions), Level.FAIL)
    assert "records before 2026-11-20T10:30Z are gone (partition 1 begins at offset 700)" in said
    assert "begin at 2026-11-20T11:00Z" in said
    accepted = checks(partitions=partitions, on_expired="land_rest")
    assert only(accepted, Level.FAIL) == [] and len(only(accepted, Level.WARN)) == 1


def test_what_expired_before_the_range_is_no_matter():
    assert only(checks(partitions={0: PartitionFacts(50, 60, stamp(days=3))}), Level.FAIL) == []


def test_a_log_that_begins_at_0_has_lost_nothing_however_young_it_is():
    assert only(checks(partitions={0: PartitionFacts(0, 9, stamp(hours=1))}), Level.FAIL) == []


def test_everything_has_expired():
    assert (
        "before 2026-11-20T12:00Z are gone"
        in only(checks(partitions={0: PartitionFacts(7, 7)}), Level.FAIL)[0]
    )


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"retention.ms": str(DAY_MS)}, "the range begins 2 days ago, fill it at once"),
        ({"retention.ms": str(2 * DAY_MS + 1)}, None),
        ({"message.timestamp.type": "LogAppendTime"}, "LogAppendTime"),
        ({"message.timestamp.after.max.ms": "9223372036854775807"}, "in the future"),
        ({"cleanup.policy": "compact,delete"}, "compacts"),
        # 1,000 bytes in five days: 200 a day, so that 300 last for 36 hours
        ({"retention.bytes": "300"}, "lasts for about 1 day 12 hours"),
        ({"retention.bytes": "3000"}, None),
    ],
)
def test_settings(changed: dict, expected: str | None):
    said = only(checks({**SOUND, **changed}), Level.WARN)
    assert [expected in line for line in said] == ([True] if expected else [])


@pytest.mark.parametrize("first", [-1, -(1 << 63), 0, 1_795_132_800_000_000, (1 << 63) - 1])
def test_no_setting_and_no_stamp_is_too_large(first: int):
    settings = {**SOUND, "retention.ms": str((1 << 63) - 1), "retention.bytes": str((1 << 63) - 1)}
    found = checks(settings, partitions={0: PartitionFacts(0, 10, first, 10)})
    assert only(found, Level.FAIL) == only(found, Level.WARN) == []
    assert any("never deleted" in check.finding for check in found)


def test_retention_shorter_than_two_outages():
    (said,) = only(checks({**SOUND, "retention.ms": str(3 * DAY_MS)}, lookback="2d"), Level.WARN)
    assert "an outage of 3 days loses records" in said
    assert f"retention.ms={8 * DAY_MS}" in said


def test_settings_that_may_not_be_seen_are_a_warning():
    (said,) = only(checks({}), Level.WARN)
    assert "DescribeConfigs" in said


def test_partitions_without_a_leader():
    assert "1 of 1 partitions" in only(checks(offline=1), Level.FAIL)[0]


REFUSED = TargetRefused("e.clicks", "it has no column _slice", "ALTER TABLE …")


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([], 0),
        ([UnknownTopic("dc1", "bids")], 1),
        ([REFUSED], 1),
        ([REFUSED, KafkaUnavailable("dc1", "x:1", "refused")], 3),
    ],
)
def test_exit_codes(errors: list, code: int):
    assert exit_code([failed(Area.KAFKA, "p", error) for error in errors]) == code


def test_every_error_becomes_a_place_a_finding_and_a_remedy():
    refused = failed(Area.CLICKHOUSE, "p", REFUSED)
    assert (refused.place, refused.finding, refused.remedy) == ("e.clicks", REFUSED.reason, REFUSED.remedy)
    unknown = failed(Area.KAFKA, "dc1/bids", UnknownTopic("dc1", "bids"))
    assert unknown.finding == "Kafka cluster 'dc1' has no topic 'bids'"
    assert unknown.remedy.startswith("create it")


def test_an_error_in_the_middle_keeps_what_was_found_before():
    def look():
        yield Check(Area.LAKE, "l", Level.OK, "fine")
        raise KafkaUnavailable("dc1", "x:1", "refused")

    assert [check.level for check in guarded(Area.LAKE, "l", look)] == [Level.OK, Level.FAIL]


@pytest.mark.parametrize(
    ("version", "level"),
    [("25.8.1.1", "ok"), ("26.7.2.1", "ok"), ("25.7.9", "fail"), ("24.12.1.1", "fail")],
)
def test_clickhouse_versions(version: str, level: str):
    assert version_check("x:1", version).level == level


@pytest.mark.parametrize(
    ("replica", "levels", "said"),
    [
        (Replica(False, 3, 3, 0, 0, "auto"), ["ok"], "3 of 3 replicas"),
        (Replica(False, 3, 3, 0, 0, "0"), ["ok", "warn"], "wait for no other replica"),
        (Replica(False, 2, 3, 0, 0, "3"), ["warn", "fail"], "needs 3 active replicas"),
        (Replica(False, 1, 3, 0, 0, "auto"), ["warn", "fail"], "needs 2 active replicas"),
        (Replica(True, 2, 3, 0, 0, "2"), ["fail"], "read-only"),
        (None, ["fail"], "system.replicas"),
    ],
)
def test_replicated_targets(replica: Replica | None, levels: list[str], said: str):
    found = list(replica_checks("e.clicks", replica))
    assert [str(check.level) for check in found] == levels
    assert said in found[-1].finding

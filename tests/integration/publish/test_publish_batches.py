"""`sluice publish` of files, objects and streams: each batch once, and exact reports."""

from __future__ import annotations

import gzip
import hashlib
import json
import signal
from pathlib import Path

import pytest
import zstandard
from kafka import KafkaAdminClient

from sluice.clients.kafka.producer import open_publisher
from sluice.clients.kafka.settings import KafkaSettings
from sluice.clients.lake.s3 import S3Lake
from sluice.errors import WrongUse
from sluice.ship.publish import ShipOrder, publish
from tests.integration.published import command, event, pipeline_of, records, stored, wait_for
from tests.integration.s3_servers import make_bucket, moto

pytestmark = pytest.mark.integration


def test_a_batch_that_is_shipped_twice_is_recognised(kafka_broker: str, name: str, tmp_path: Path):
    path, pipeline = tmp_path / "events.ndjson.gz", pipeline_of(kafka_broker, name, tmp_path)
    path.write_bytes(gzip.compress(b"\n".join(event(n) for n in range(50))))
    number = hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    assert [b.batch for b in publish(pipeline, ShipOrder(str(path))).batches] == [number]
    path.rename(tmp_path / "renamed.gz")
    again = publish(pipeline, ShipOrder(str(tmp_path / "renamed.gz")))
    assert (again.events, [b.state for b in again.batches]) == (0, ["shipped before"])
    found = {(r.headers[0][0], r.headers[0][1], r.value) for r in records(kafka_broker, name)}
    assert found == {("sluice_batch", b"%b:%d" % (number.encode(), n + 1), event(n)) for n in range(50)}
    publish(pipeline, ShipOrder(str(tmp_path / "renamed.gz"), again=True))
    assert len(records(kafka_broker, name)) == 100


def test_the_report_is_what_the_partitions_hold(kafka_broker: str, name: str, tmp_path: Path):
    path, pipeline = tmp_path / "events.ndjson", pipeline_of(kafka_broker, name, tmp_path)
    for part in (1, 2):
        path.write_bytes(b"\n".join(event(n % 60, part=part, n=n) for n in range(5500)))
        report = publish(pipeline, ShipOrder(str(path)))
    assert (report.acknowledged, report.unacknowledged) == (5500, 0)
    found = records(kafka_broker, name)
    for partition, told in report.partitions.items():
        offsets = [r.offset for r in found if r.partition == partition and b'"part": 2' in r.value]
        assert (told.records, told.first, told.last) == (len(offsets), min(offsets), max(offsets))
    assert sum(told.records for told in report.partitions.values()) == 5500


def test_no_thread_of_the_client_outlives_the_publisher(kafka_broker: str, name: str):
    """Left to the garbage collector, it was torn down under its own threads, which could end the process."""

    def threads() -> int:
        names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
        return sum(comm.startswith("rdk:") for comm in names)

    before, answers = threads(), []
    with open_publisher(KafkaSettings("dc1", kafka_broker), name, 1) as kept:
        assert threads() > before
        kept.send(b"x", None, 0, 1_767_225_600_000, None, lambda error, _: answers.append(error))
    assert threads() == before
    assert len(answers) == 1  # acknowledged, or given up


def test_keys_choose_the_partitions_that_javas_clients_choose(kafka_broker: str, name: str, tmp_path: Path):
    """Hashes of Kafka's own test of its murmur2 (UtilsTest.testMurmur2 of org.apache.kafka.common.utils)."""
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
              "a-little-bit-longer-string": -1486304829, "abc": 479470107}  # fmt: skip
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker)
    admin.create_topics({name: {"num_partitions": 7, "configs": {}}}, wait_for_metadata=True)
    admin.close()
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"\n".join([*(event(1, user=user) for user in hashes), event(2)]))
    report = publish(pipeline_of(kafka_broker, name, tmp_path), ShipOrder(str(path), key="user"))
    assert report.no_key == 1
    found = {r.key.decode(): r.partition for r in records(kafka_broker, name) if r.key is not None}
    assert found == {user: (number & 0x7FFFFFFF) % 7 for user, number in hashes.items()}


def test_the_objects_below_a_prefix(kafka_broker: str, name: str, tmp_path: Path, monkeypatch):
    with moto(tmp_path) as settings:
        make_bucket(settings, "logs")
        variables = {"AWS_ENDPOINT_URL": settings.endpoint_url, "AWS_ACCESS_KEY_ID": settings.key,
                     "AWS_SECRET_ACCESS_KEY": settings.secret}  # fmt: skip
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value or "")
        store = S3Lake("logs", "", settings)
        objects = {"raw/10.gz": gzip.compress(event(10)), "raw/11.zst": zstandard.compress(event(11)),
                   "raw/_SUCCESS": b"no", "rawer/12": b"no"}  # fmt: skip
        for key, data in objects.items():
            store.put(key, data)
        pipeline = pipeline_of(kafka_broker, name, tmp_path)
        report = publish(pipeline, ShipOrder("s3://logs/raw"))
        store.put("raw/12", event(12))
        second = publish(pipeline, ShipOrder("s3://logs/raw/"))
    assert [b.source for b in report.batches] == ["s3://logs/raw/10.gz", "s3://logs/raw/11.zst"]
    assert [b.state for b in second.batches] == ["shipped before", "shipped before", "shipped"]
    assert sorted(value for value, _ in stored(kafka_broker, name)) == [event(10), event(11), event(12)]


def test_standard_input_is_published_as_it_comes(kafka_broker: str, name: str, tmp_path: Path):
    """The first events are in Kafka while the source is still open, as with tail -f."""
    with command(kafka_broker, name, tmp_path, "-") as process:
        process.stdin.write(event(1) + b"\n")
        process.stdin.flush()
        wait_for(kafka_broker, name, 1)
        out, _ = process.communicate(event(2), timeout=60)
    assert (process.returncode, json.loads(out)["acknowledged"]) == (0, 2)
    assert {value for value, _ in stored(kafka_broker, name)} == {event(1), event(2)}


@pytest.mark.parametrize(("stop", "follow"), [(signal.SIGINT, False), (signal.SIGTERM, True)])
def test_an_interruption_reports_what_was_acknowledged(
    kafka_broker: str, name: str, tmp_path: Path, stop: int, follow: bool
):
    """Following a log has no other end: exit code 0. A batch that is not over says so: 130."""
    log = tmp_path / "app.log"
    log.write_bytes(b"".join(event(n) + b"\n" for n in range(50)))
    arguments = [str(log), "--follow"] if follow else ["-", "--batch", "b1"]
    with command(kafka_broker, name, tmp_path, *arguments) as process:
        if not follow:
            process.stdin.write(log.read_bytes())
            process.stdin.flush()
        wait_for(kafka_broker, name, 50)
        process.send_signal(stop)
        out, err = process.stdout.read(), process.stderr.read()
        process.wait(60)
    report = json.loads(out)
    assert (report["acknowledged"], report["unacknowledged"]) == (50, 0)
    assert (process.returncode, report["end"]) == ((0, "done") if follow else (130, "interrupted"))
    assert b"Traceback" not in err
    if follow:
        assert json.loads((tmp_path / "app.log.sluice.json").read_text())["place"]["line"] == 50
    else:
        entry = json.loads((tmp_path / f"adx/_shipped/dc1/{name}/b1.json").read_text())
        assert (entry["line"], entry["done"]) == (50, False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-", "--follow"], "--follow is for a log file that grows"),
        (["a.gz", "--follow"], "--follow is for a log file that grows"),
        (["a.log", "--follow", "--again"], "ids of its own"),
        (["a.log", "--state", "x"], "add --follow"),
        (["-", "--batch", "a/b"], "expected letters"),
        (["missing.log"], "no such file"),
    ],
)
def test_a_wrong_use_is_one_line(tmp_path: Path, kafka_broker: str, name: str, arguments, told: str):
    pipeline = pipeline_of(kafka_broker, name, tmp_path)
    source, options = arguments[0], arguments[1:]
    order = ShipOrder(
        source,
        follow="--follow" in options,
        again="--again" in options,
        state=Path("x") if "--state" in options else None,
        batch="a/b" if "--batch" in options else None,
    )
    with pytest.raises(WrongUse, match=told):
        publish(pipeline, order)

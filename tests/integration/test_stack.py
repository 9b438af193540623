"""The embedded services by themselves: they start, hold data over a kill, and stop cleanly."""

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

pytestmark = pytest.mark.integration

USERS = """
<clickhouse>
  <users>
    <default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile></default>
    <reader>
      <password>seen</password><networks><ip>127.0.0.1</ip></networks><profile>readonly</profile>
    </reader>
  </users>
  <profiles><default/><readonly><readonly>1</readonly></readonly></profiles>
</clickhouse>
"""


def client(server, **options):
    return clickhouse_connect.get_client(**{**server.at.login, **options})


def test_clickhouse_keeps_acknowledged_rows_over_a_kill(start_clickhouse_server, name):
    server = start_clickhouse_server()
    with client(server) as ch:
        ch.command(f"CREATE DATABASE {name}")
        ch.command(f"CREATE TABLE {name}.t (n UInt32) ENGINE = MergeTree ORDER BY n")
        ch.insert(f"{name}.t", [[7], [35]], column_names=["n"])
    server.kill()
    server.start()
    with client(server) as ch:
        assert ch.query(f"SELECT sum(n) FROM {name}.t").result_rows == [(42,)]


def test_clickhouse_ends_cleanly_on_sigterm_with_a_client_connected(start_clickhouse_server):
    server = start_clickhouse_server()
    with client(server) as ch:
        ch.command("SELECT 1")
        server.process.terminate()
        assert server.process.wait(20) == 0


def test_clickhouse_users_come_from_the_configuration(start_clickhouse_server, name):
    server = start_clickhouse_server(users=USERS)
    with client(server, username="reader", password="seen") as reader:
        assert reader.command("SELECT currentUser()") == "reader"
        with pytest.raises(DatabaseError, match=r"READONLY|164"):
            reader.command(f"CREATE DATABASE {name}")
    with pytest.raises(DatabaseError, match=r"516|AUTHENTICATION"):
        client(server, username="reader", password="wrong")


def test_two_clickhouses_see_each_other_over_tcp(start_clickhouse_server, name):
    near, far = start_clickhouse_server(tcp=True), start_clickhouse_server(tcp=True)
    with client(far) as ch:
        ch.command(f"CREATE DATABASE {name}")
        ch.command(f"CREATE TABLE {name}.t (n UInt32) ENGINE = MergeTree ORDER BY n")
        ch.insert(f"{name}.t", [[5]], column_names=["n"])
    with client(near) as ch:
        login = f"'{far.user}', '{far.password}'"
        assert ch.command(f"SELECT n FROM remote('127.0.0.1:{far.tcp_port}', {name}.t, {login})") == 5


@pytest.mark.long
def test_kafka_keeps_records_over_a_kill(start_kafka_broker, name):
    broker = start_kafka_broker()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    producer.send(name, b"one").get(20)
    producer.close()
    broker.kill()
    broker.start()
    consumer = KafkaConsumer(
        name, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20000
    )
    assert next(consumer).value == b"one"
    consumer.close()


def test_a_topic_is_not_made_by_asking_for_it(kafka_broker, name):
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker)
    producer = KafkaProducer(bootstrap_servers=kafka_broker, max_block_ms=2000)
    with pytest.raises(Exception, match=r"(?i)timeout|metadata|unknown"):
        producer.send(name, b"nobody").get(5)
    producer.close(timeout=1)
    assert name not in admin.list_topics()
    admin.close()

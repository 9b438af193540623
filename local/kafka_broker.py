"""One Kafka broker (KRaft, one node) out of Maven Central's jars.

python -m local.kafka_broker --data DIR --port 9092 [--controller-port 9093]

`KAFKA_OPTS` has more options for its JVM, as in Kafka's own scripts.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from local import fetched
from local.java import JavaMissing, java
from local.secret_file import PRIVATE
from local.versions import BROKER_CLASSES
from sluice.flow.land.submit import class_data

HEAP = "512m"

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}/log
auto.create.topics.enable=false
num.partitions=4
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
"""

LOGGING = {
    "defaultLogLevel": "warn",
    "showDateTime": "true",
    "dateTimeFormat": "HH:mm:ss",
    "logFile": "System.out",
}


def java_command(main_class: str, *arguments: str) -> list[str]:
    logging = [f"-Dorg.slf4j.simpleLogger.{key}={value}" for key, value in LOGGING.items()]
    options = [f"-Xmx{HEAP}", *class_data(BROKER_CLASSES), *os.environ.get("KAFKA_OPTS", "").split()]
    return [java(), *options, *logging, "-cp", f"{fetched.broker_jars()}/*", main_class, *arguments]


def write_configuration(data: Path, port: int, controller_port: int, more: str = "") -> Path:
    """Of a property that is there twice, Java takes the last: `more` has the say."""
    data.mkdir(parents=True, exist_ok=True)
    properties = data / "server.properties"
    properties.write_text(PROPERTIES.format(data=data, port=port, controller_port=controller_port) + more)
    return properties


def storage_tool(*arguments: str) -> str:
    command = java_command("kafka.tools.StorageTool", *arguments)
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def format_storage(data: Path, properties: Path) -> None:
    """Gives the storage its cluster id, once; the id is what topics' UUIDs and offsets hang on."""
    if not (data / "log" / "meta.properties").exists():
        cluster = storage_tool("random-uuid").split()[-1]
        storage_tool("format", "-t", cluster, "-c", str(properties))


def serve(data: Path, port: int, controller_port: int, more: str = "") -> None:
    data = data.resolve()
    properties = write_configuration(data, port, controller_port, more)
    format_storage(data, properties)
    command = java_command("kafka.Kafka", str(properties))
    sys.stdout.flush()
    os.execv(command[0], command)  # signals then go straight to the broker, which shuts down cleanly


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that keeps everything")
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--controller-port", type=int, help="default: the port after --port")
    parser.add_argument("--properties", type=Path, help="a file with more of the broker's settings")
    options = parser.parse_args()
    os.umask(PRIVATE)
    try:
        more = options.properties.read_text() if options.properties else ""
        serve(options.data, options.port, options.controller_port or options.port + 1, more)
    except (JavaMissing, fetched.NotAsPinned, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(main())

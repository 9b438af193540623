"""What `make setup` fetches beside the Python packages; every version stands here once, with its reason.

The hashes of the files are in fetched.sha256, which `make pins` writes; local/fetched.py compares with it.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FETCHED = ROOT / ".deps"

JAVA_AT_LEAST = 17  # the oldest that both the broker and Spark 4.2 run on

KAFKA = "4.2.0"  # the broker; docker-compose.yaml runs the same
SPARK = "4.2.0"  # the same as pyspark in requirements.txt
CHDB = "26.7.3-stable.1"  # the first with ClickHouse's own HTTP server callable from libchdb.so
DEBEZIUM = "3.6.1.Final"  # all of its parts are in every mirror of Maven Central
CONNECT = "4.3.0"  # the one that this Debezium's build names
AXE = "4.14.1"  # axe-core, which the browser's tests run in the page


@dataclass(frozen=True)
class Jar:
    organisation: str
    name: str
    version: str


# The broker, with its dependencies, and a logger for it, which it leaves to its distribution.
BROKER_JARS = (
    Jar("org.apache.kafka", "kafka_2.13", KAFKA),
    Jar("org.slf4j", "slf4j-simple", "1.7.36"),
)

# Spark's Kafka source, without dependencies: PySpark ships the rest.
SPARK_KAFKA_JARS = (
    Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK),
    # 4.2.0 of the token provider is not in every mirror of Maven Central. The Kafka source calls six
    # of its methods, and 4.0.0 has all of them with the same signatures.
    Jar("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    Jar("org.apache.kafka", "kafka-clients", "3.9.2"),  # the one Spark 4.2.0's build names
    Jar("org.apache.commons", "commons-pool2", "2.13.1"),  # likewise
)

# Debezium for PostgreSQL in Kafka Connect, with their dependencies: for tests alone.
DEBEZIUM_JARS = (
    Jar("io.debezium", "debezium-connector-postgres", DEBEZIUM),
    Jar("org.apache.kafka", "connect-runtime", CONNECT),
    Jar("org.slf4j", "slf4j-simple", "1.7.36"),
)

KAFKA_JARS_DIR = FETCHED / f"kafka-{KAFKA}"
SPARK_JARS_DIR = FETCHED / f"spark-kafka-{SPARK}"
CHDB_DIR = FETCHED / f"chdb-{CHDB}"
CHDB_PACKAGE = "@chdb/lib-linux-x64-gnu"
CHDB_LIBRARY = "libchdb.so"
DEBEZIUM_DIR = FETCHED / f"debezium-{DEBEZIUM}"
AXE_DIR = FETCHED / f"axe-core-{AXE}"  # for tests alone
AXE_SCRIPT = "axe.min.js"
# Archives of Java's loaded classes: local/class_data.py.
SPARK_CLASSES = FETCHED / "class-data" / "spark.jsa"
BROKER_CLASSES = FETCHED / "class-data" / "broker.jsa"

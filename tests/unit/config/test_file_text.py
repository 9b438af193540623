"""What of a pipeline file is kept and shown: no comment, no secret, and variables as they are written."""

from __future__ import annotations

from pathlib import Path

from sluice.config.file_text import file_text, text_of

FILE = """\
# who wrote this: not kept
kafka: [{cluster: dc1, bootstrap: "${KAFKA:-kafka:9092}", topics: [t]}]   # nor this
event: {type: {field: type}, time: {record: true}}
lake: s3://me:hush@bucket/prefix
tables: {token: "e.tokens"}
spark: {spark.hadoop.fs.s3a.secret.key: hush, spark.executor.memory: 4g, x: "-Dp.password=hush"}
alarms:
  notify: [{notifier: a.B, arguments: {url: "https://hooks/T0/hush", retries: 3}}]
"""


def test_a_file_without_comments_and_secrets(tmp_path: Path):
    path = tmp_path / "p.yaml"
    path.write_text(FILE)
    (tmp_path / "_defaults.yaml").write_text("airflow: {owner: platform}\n")
    text = file_text(path)
    assert "hush" not in text and "#" not in text and "not kept" not in text
    assert text.splitlines() == [
        "kafka:",
        "- cluster: dc1",
        "  bootstrap: ${KAFKA:-kafka:9092}",
        "  topics:",
        "  - t",
        "event:",
        "  type:",
        "    field: type",
        "  time:",
        "    record: true",
        "lake: s3://(hidden)@bucket/prefix",
        "tables:",
        "  token: e.tokens",
        "spark:",
        "  spark.hadoop.fs.s3a.secret.key: (hidden)",
        "  spark.executor.memory: 4g",
        "  x: (hidden)",
        "alarms:",
        "  notify:",
        "  - notifier: a.B",
        "    arguments:",
        "      url: (hidden)",
        "      retries: 3",
        "airflow:",
        "  owner: platform",
    ]


def test_how_a_file_is_written_does_not_matter():
    assert text_of({"a": [1], "b": "c"}) == text_of({"a": [1], "b": "c"})
    assert text_of({"a": "x\u202ey"}) != text_of({"a": "xy"})

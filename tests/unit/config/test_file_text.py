"""What of a pipeline file is kept and shown: no comment, no secret, and variables as they are written."""

from __future__ import annotations

from pathlib import Path

from sluice.config.files import file_text, text_of
from sluice.config.yaml_text import load, parse
from sluice.runtime import PROJECT

FILE = """\
# who wrote this: not kept
kafka: [{cluster: dc1, bootstrap: "${SLUICE_VAR_KAFKA:-kafka:9092}", topics: [t]}]   # nor this
event: {type: {field: type}, time: {record: true}}
lake: s3://me:hush@bucket/prefix
tables: {token: "e.tokens", click: {table: e.clicks, columns: {a: b.c}}}
counts: [{table: e.traffic, by: [country]}]
mask:
  ip: drop
  user.id: {hash: hush-hush-hush-hush, types: [click]}
  user.name: {hash: [{connection: mask_key}, hush-hush-hush-hush]}
  user.mail: {hash: {connection: mask_key}}
  phone: {hash: "${SLUICE_VAR_PEPPER:-hush-hush-hush-hush}"}
  name: {keep_first: 2}
spark: {spark.hadoop.fs.s3a.secret.key: hush, spark.executor.memory: 4g, x: "-Dp.password=hush"}
alarms:
  notify: [{notifier: a.B, arguments: {url: "https://hooks/T0/hush", retries: 3, headers: {a: [hush]}}}]
"""


SHOWN = """\
kafka:
- cluster: dc1
  bootstrap: ${SLUICE_VAR_KAFKA:-kafka:9092}
  topics:
  - t
event:
  type:
    field: type
  time:
    record: true
lake: s3://(hidden)@bucket/prefix
tables:
  token: e.tokens
  click:
    table: e.clicks
    columns:
      a: b.c
counts:
- table: e.traffic
  by:
  - country
mask:
  ip: drop
  user.id:
    hash: (hidden)
    types:
    - click
  user.name:
    hash:
    - connection: mask_key
    - (hidden)
  user.mail:
    hash:
      connection: mask_key
  phone:
    hash: (hidden)
  name:
    keep_first: 2
spark:
  spark.hadoop.fs.s3a.secret.key: (hidden)
  spark.executor.memory: 4g
  x: (hidden)
alarms:
  notify:
  - notifier: a.B
    arguments:
      url: (hidden)
      retries: 3
      headers:
        a:
        - (hidden)
airflow:
  owner: platform
"""


def test_a_file_without_comments_and_secrets(tmp_path: Path):
    path = tmp_path / "p.yaml"
    path.write_text(FILE)
    (tmp_path / "_defaults.yaml").write_text("airflow: {owner: platform}\n")
    text = file_text(path)
    assert "hush" not in text and "#" not in text and "not kept" not in text
    assert text == SHOWN


def test_how_a_file_is_written_does_not_matter():
    assert text_of({"max_types": 1, "lake": "c"}) == text_of({"max_types": 1, "lake": "c"})
    assert text_of({"lake": "x\u202ey"}) != text_of({"lake": "xy"})


def test_what_the_model_does_not_know_is_hidden():
    content = {"lake": "l", "new_key": {"a": ["hush"]}, "mask": {"ip": {"salt": "hush"}}}
    assert "hush" not in text_of(content)
    assert "lake: l" in text_of(content)


def test_what_holds_no_secret_stays():
    """Forms that the model reads by itself, too: `event.format`, `shard_by`, `keep.tables`."""
    content = load(PROJECT / "include" / "pipelines" / "adx.yaml")
    forms = {
        "event": {**content["event"], "format": {"protobuf": {"file": "a.proto", "message": "A"}}},
        "clickhouse": {"shards": [{"name": "s1", "replicas": ["a", "b"]}], "shard_by": {"e.t": "n"}},
        "keep": {"lake": "400d", "tables": {"e.t": "30d"}},
        "airflow": {"steps": {"land": {"pool": "p"}}, "access_control": {"Ads": ["can_read"]}},
        "rollups": {"e.u": {"from": "e.t", "sql": "u.sql"}},
    }
    assert parse(text_of(content | forms)) == content | forms

"""What `sluice init` was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sluice.config.message_format import JSON
from sluice.infer.types import MISFITS

NONE, ALL = "-", "*"
SAMPLE = 5_000
"""Records that are read."""


@dataclass(frozen=True)
class MessageForm:
    """How the records' bytes say an event: `kind` is json, avro or protobuf. `schema` is a .avsc or .proto
    file, of which `message` is meant; `registry` an Airflow connection."""

    kind: str = JSON
    schema: Path | None = None
    message: str | None = None
    registry: str | None = None


@dataclass(frozen=True)
class InitRequest:
    """A topic to be sampled, or a `file` (`-` is standard input). What is None is asked, or decided from the
    sample; an empty `type` or `time` field means that the topic, or the record, says it.

    Args:
        bootstrap: Brokers; without them the Airflow connection `connection`.
        not_null: Fields that no event lacks, `a,b`; NONE for none, ALL for all that no sampled event lacks.
        folder: Where pipeline file and statements are written.
        misfits: Share of a field's values that its column may refuse.
        editor_schema: Name of the JSON Schema in `folder`, with which editors know the keys; empty without
            one.
    """

    name: str | None
    topic: str | None
    file: str | None
    bootstrap: str | None
    connection: str
    clickhouse: str
    folder: Path
    type: str | None = None
    time: str | None = None
    database: str | None = None
    lake: str | None = None
    sample: int = SAMPLE
    misfits: float = MISFITS
    force: bool = False
    apply: bool = False
    editor_schema: str = ""
    form: MessageForm = MessageForm()
    not_null: str | None = None

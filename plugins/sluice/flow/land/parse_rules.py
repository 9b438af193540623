"""The rules by which records become rows, as a digest that a manifest keeps: another digest says that a
`remake` may give other rows."""

from __future__ import annotations

import json
from hashlib import sha256

from sluice.config.pipeline import Pipeline
from sluice.flow.land.task.decoding import schema_of
from sluice.mask.mask_rules import said_by

_DIGITS = 16


def rules_now(pipeline: Pipeline) -> dict[str, str]:
    """Returns the digest for each topic that the pipeline file names. Raises SchemaRefused."""
    rules = digest(pipeline, schema_of(pipeline.event))
    return {topic: rules for cluster in pipeline.kafka for topic in cluster.topics}


def digest(pipeline: Pipeline, schema: bytes | None) -> str:
    """Returns the digest of what decides a record's rows: how it is opened, where type and time are, which
    hours it may be of, how many types have folders, what is masked (with which keys is not said). `schema` is
    the content of the schema file.

    `max_record` is none of it: the lake has no bytes of a record that was too large. Pure.
    """
    event = pipeline.event
    mask = {"mask": said_by(pipeline)} if pipeline.mask else {}
    rules = {
        "type": event.type.model_dump(),
        "time": event.time.model_dump(),
        "rows": event.rows,
        "format": event.format.kind,
        "message": event.format.message,
        "schema": sha256(schema).hexdigest() if schema is not None else None,
        "registry": event.registry is not None,
        "batch": event.batch.header if event.batch else None,
        "max_types": pipeline.max_types,
        "max_early": str(pipeline.max_early),
        "max_late": str(pipeline.max_late),
        **mask,
    }
    return sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:_DIGITS]

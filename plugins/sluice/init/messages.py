"""Reads the sampled messages: JSON as it is, Avro and Protobuf by a schema file or a registry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sluice.config.event import Event
from sluice.config.message_format import JSON, PROTOBUF, WITH_SCHEMA
from sluice.config.mistakes import first_mistake
from sluice.doctor.events import parse
from sluice.errors import WrongUse
from sluice.flow.land.task.decoding import decoding_of
from sluice.infer.values import loads
from sluice.init.request import MessageForm
from sluice.init.sample import Sample
from sluice.runtime import deeper

_WIRE_FORMAT = b"\0"  # Confluent's wire format begins with it, and no JSON does


def form_keys(form: MessageForm, folder: Path) -> dict[str, Any]:
    """Returns the keys of the pipeline file's `event` for the form; none for JSON. A schema file's path
    is relative to `folder`."""
    if form.kind == JSON:
        return {}
    keys: dict[str, Any] = {"format": form.kind}
    if form.schema is not None:
        file = os.path.relpath(form.schema.resolve(), folder.resolve())
        message = {"message": form.message or ""}
        keys["format"] = {form.kind: {"file": file, **message} if form.kind == PROTOBUF else file}
    if form.registry is not None:
        keys["registry"] = {"connection": form.registry}
    return keys


def check_form(form: MessageForm, file: str | None) -> None:
    """Raises WrongUse for options that do not go together."""
    if form.kind not in WITH_SCHEMA:
        options = {"--schema": form.schema, "--message": form.message, "--registry": form.registry}
        wrong = next((option for option, value in options.items() if value is not None), None)
        if wrong is not None:
            raise WrongUse(f"`{wrong}` is for messages in Avro or Protobuf: add `--format {WITH_SCHEMA[0]}`")
    if file is not None and form.kind != JSON:
        raise WrongUse(f"a file is read line by line, as JSON: sample messages in {form.kind} from `--topic`")
    if form.kind in WITH_SCHEMA and form.schema is None and form.registry is None:
        raise WrongUse(f"`--format {form.kind}` needs `--schema FILE` or `--registry CONNECTION`")
    if (form.kind == PROTOBUF and form.schema is not None) != (form.message is not None):
        raise WrongUse(
            f"`--message` names the message of a .proto file: `--format {PROTOBUF}` with `--schema`"
        )


def read_event(content: Mapping[str, Any], form: MessageForm, folder: Path) -> Event:
    """Returns the `event` block with these keys and those of `form`. Raises WrongUse."""
    try:
        return Event.model_validate(
            {**content, **form_keys(form, folder)}, context={"folder": folder.resolve()}
        )
    except ValidationError as error:
        raise WrongUse(first_mistake(Event, error).expected) from error


def json_values(sample: Sample) -> list[Any]:
    """Returns the records that are JSON; the landing's own parser counts what is no event."""
    values = []
    with deeper():
        for record in sample.records:
            with suppress(ValueError, RecursionError):
                values.append(loads((record.value or b"").decode()))
    return values


def decoded_values(sample: Sample, form: MessageForm, folder: Path) -> list[Any]:
    """Returns the events of messages that a schema decodes. Raises WrongUse where none can be, and what
    a schema or its registry raises."""
    event = read_event({"type": {"topic": True}, "time": {"record": True}}, form, folder)
    parsed = parse(event, sample.records, decoding_of(event))
    if not parsed.events:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in parsed.refused.items())
        raise WrongUse(f"none of {sample.source} is {form.kind} of this schema: {reasons}")
    return [item.event for item in parsed.events]


def expected_messages(sample: Sample) -> str:
    """Returns what to do about records that are not JSON."""
    framed = sum((record.value or b"").startswith(_WIRE_FORMAT) for record in sample.records)
    if 2 * framed > len(sample.records):
        return (
            f"{framed:,} begin as messages of a schema registry do: name `--format avro` or "
            "`--format protobuf` and `--registry CONNECTION`"
        )
    return "expected events in JSON, or `--format avro` or `--format protobuf` with `--schema FILE`"

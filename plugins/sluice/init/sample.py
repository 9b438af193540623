"""Reads a bounded sample of a topic or a file, and the events in it: JSON, Avro or Protobuf."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from random import Random
from typing import Any

from pydantic import ValidationError

from sluice.clients.kafka.topics import SampledRecord, spread
from sluice.config.event import ENVELOPE, JSON, PROTOBUF, WITH_SCHEMA, Event
from sluice.config.mistakes import first_mistake
from sluice.config.pipeline import Cluster
from sluice.doctor.events import parse
from sluice.errors import WrongUse
from sluice.flow.land.formats.framing import HEADER, names_schema
from sluice.flow.land.task.decode import decoding_of
from sluice.init.questions import MessageForm
from sluice.ship.lines import Chunk, chunks, opened, standard_input

MOST_FILE_BYTES = 256 << 20
_MOST_RECORD = 16 << 20
STDIN = "-"


@dataclass(frozen=True)
class Sample:
    """`source` says what was read, for a person. `cut`: more follows that was not read."""

    records: tuple[SampledRecord, ...]
    source: str
    cut: bool = False

    def of_topic(self, topic: str) -> Sample:
        """Returns the same as records of `topic`, into which a file will be published."""
        return replace(self, records=tuple(replace(record, topic=topic) for record in self.records))


def sample_topic(cluster: Cluster, topic: str, count: int) -> Sample:
    """Raises KafkaUnavailable, UnknownTopic, and WrongUse for a topic without records."""
    records = tuple(spread(cluster, topic, count, _MOST_RECORD))
    if not records:
        raise WrongUse(f"topic {topic} has no records: write some, or take a sample from `--file`")
    partitions = len({record.partition for record in records})
    return Sample(records, f"{len(records):,} records of topic {topic} ({partitions:,} partitions)")


def sample_file(name: str, count: int) -> Sample:
    """Returns the lines as records of no topic yet. Raises WrongUse for a file that cannot be read or is
    empty."""
    with _stream(name) as stream:
        lines, read, cut = chosen_lines(chunks(stream, name), count, MOST_FILE_BYTES)
    if not lines:
        raise WrongUse(f"{name} has no lines: expected one event in JSON a line")
    records = tuple(SampledRecord("", 0, number, 0, line, ()) for number, line in lines)
    return Sample(records, _counted(len(records), read, name), cut)


def _counted(held: int, read: int, name: str) -> str:
    return f"{held:,} lines of {name}" if held == read else f"{held:,} of the first {read:,} lines of {name}"


@contextmanager
def _stream(name: str) -> Iterator[BufferedIOBase]:
    if name == STDIN:
        yield standard_input()
    else:
        with opened(Path(name), name) as stream:
            yield stream


def chosen_lines(
    chunks: Iterable[Chunk], count: int, most_bytes: int
) -> tuple[list[tuple[int, bytes]], int, bool]:
    """Returns at most `count` (number, line), how many lines were read within `most_bytes`, and whether that
    ended it.

    Each line is chosen with the same chance (Algorithm R, J. Vitter 1985), and of the same lines always the
    same: a fixed distance would meet only some types of a producer that writes them in turn. The first and
    the last line are among them: mostly they have the first and the last time.
    """
    chance = Random(0)  # noqa: S311 (nothing is secret)
    held: list[tuple[int, bytes]] = []
    ends: list[tuple[int, bytes]] = []
    seen, size, cut = 0, 0, False
    for chunk in chunks:
        for number, line in zip(chunk.numbers, chunk.events, strict=True):
            seen += 1
            if len(held) < count:
                held.append((number, line))
            elif (position := chance.randrange(seen)) < count:
                held[position] = (number, line)
        ends = [*ends[:1], *zip(chunk.numbers, chunk.events, strict=True)]
        ends = [ends[0], ends[-1]] if ends else []
        size += sum(map(len, chunk.events))
        if size >= most_bytes:
            cut = True
            break
    return _with_ends(sorted(held), ends), seen, cut


def _with_ends(held: list[tuple[int, bytes]], ends: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Puts the first and the last line in the places of the outermost ones."""
    return held if len(held) < len(ends) else [*ends[:1], *held[1:-1], *ends[1:]] if len(held) > 1 else held


def form_keys(form: MessageForm, folder: Path) -> dict[str, Any]:
    """Returns the keys of the pipeline file's `event` for the form; none for plain JSON. A schema file's path
    is relative to `folder`."""
    said = {"unpack": form.unpack, "change": form.change, "surrogates": form.surrogates, "rows": form.rows}
    keys: dict[str, Any] = {name: value for name, value in said.items() if value}
    if form.rows == "field":
        envelope = {"envelope": form.envelope} if form.envelope != ENVELOPE else {}
        keys["rows"] = {"field": form.field, **envelope}
    if form.kind != JSON:
        keys["format"] = form.kind
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
        options = {"--schema": form.schema, "--message": form.message}
        wrong = next((option for option, value in options.items() if value is not None), None)
        if wrong is not None:
            raise WrongUse(f"`{wrong}` is for messages in Avro or Protobuf: add `--format {WITH_SCHEMA[0]}`")
    if file is not None and form != MessageForm():
        what = "behind schema ids" if form.kind == JSON else f"in {form.kind}"
        raise WrongUse(f"a file is read line by line, as JSON: sample messages {what} from `--topic`")
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


_ANY = "any"  # a file's lines have no topic yet


def opened_events(sample: Sample, form: MessageForm, folder: Path) -> tuple[list[Mapping[str, Any]], int]:
    """Returns the events of the sample's messages, and how many types their schemas have. Raises WrongUse
    where there is none, and what a schema or its registry raises."""
    kind = {"topic": True} if form.kind == JSON else {"schema": True}
    event = read_event({"type": kind, "time": {"record": True}}, form, folder)
    parsed = parse(event, sample.of_topic(_ANY).records, decoding_of(event))
    if not parsed.events:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in sorted(parsed.refused.items()))
        what = (
            f"a JSON object: {expected_messages(sample)}"
            if form.kind == JSON
            else f"{form.kind} of this schema"
        )
        raise WrongUse(f"none of {sample.source} is {what}: {reasons}")
    return [item.event for item in parsed.events], len(parsed.types())


def expected_messages(sample: Sample) -> str:
    """Returns what to do about records that are not JSON."""
    framed = sum(
        names_schema(record.value) or any(name == HEADER for name, _ in record.headers)
        for record in sample.records
    )
    if 2 * framed > len(sample.records):
        return (
            f"{framed:,} name a schema as messages of a registry do: name `--format avro` or "
            "`--format protobuf` and `--registry CONNECTION`"
        )
    return "expected events in JSON, or `--format avro` or `--format protobuf` with `--schema FILE`"

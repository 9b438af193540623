"""`sluice find`: where one record is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import pendulum
import typer
from rich.console import RenderableType

from sluice.cli.options import Config, Json, PipelineArgument, load_pipeline, read_instant
from sluice.cli.output import print_json, progress, show, text_of
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.safe_text import visible
from sluice.slices import SliceRange, ms_text

if TYPE_CHECKING:
    from sluice.flow.find.find import RecordFinder
    from sluice.flow.find.outcome import LakeRow, RecordFacts, TableRecord

PlaceArgument = Annotated[
    str | None, typer.Argument(metavar="[TOPIC:PARTITION:OFFSET]", help="The record's place in Kafka.")
]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", help="Only the record of this Kafka cluster.")
]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="K", help="Records with this key.")]
FieldOption = Annotated[
    str | None,
    typer.Option("--field", metavar="PATH=VALUE", help="Records with this value, such as user.id=7."),
]
AroundOption = Annotated[
    str | None,
    typer.Option("--around", metavar="T", help="With --key or --field: when the record came into Kafka."),
]
WithinOption = Annotated[int, typer.Option("--within", metavar="HOURS", min=1, max=8784, help="Around T.")]
MostOption = Annotated[int, typer.Option("--most", metavar="N", min=1, max=1000, help="Records shown.")]
_MOST_REJECTED_ROWS = 20  # of a table, in a line


def find(
    pipeline: PipelineArgument,
    place: PlaceArgument = None,
    cluster: ClusterOption = None,
    key: KeyOption = None,
    field: FieldOption = None,
    around: AroundOption = None,
    within: WithinOption = 1,
    most: MostOption = 20,
    config: Config = None,
    json: Json = False,
) -> None:
    """Says where a record is: its slice, its row in the lake or why it has none, and what tables have of it.

    A place is found without a scan; a key or a field by reading the files of the hours around T.
    Exits with 1 where no record is found, and with 3 where a server does not answer.
    Example: sluice find adx bids:3:10482
    """
    from sluice.clients.lake.open import open_lake
    from sluice.flow.find.find import RecordFinder

    spec = load_pipeline(pipeline, config)
    finder = RecordFinder(spec, open_lake(spec))
    if place is not None:
        records = _at(finder, place, cluster, (key, field, around))
    else:
        records = _matching(finder, spec, (key, field), around, within, most)
    if json:
        print_json([_as_json(spec, facts) for facts in records])
    else:
        show(*(line for facts in records for line in _lines(spec, facts)))
    _exit(records)


def _at(
    finder: RecordFinder, place: str, cluster: str | None, others: tuple[str | None, ...]
) -> list[RecordFacts]:
    from sluice.flow.find.outcome import read_place

    if any(other is not None for other in others):
        raise WrongUse("a place needs no --key, --field or --around: leave them out")
    return finder.at(*read_place(place), cluster)


def _matching(
    finder: RecordFinder,
    spec: Pipeline,
    key_and_field: tuple[str | None, str | None],
    around: str | None,
    within: int,
    most: int,
) -> list[RecordFacts]:
    from sluice.flow.find.search_files import read_match, with_hashes
    from sluice.mask.mask_rules import hidden_by, mask_rules

    rules = mask_rules(spec)
    match = with_hashes(read_match(*key_and_field), rules)
    name = "_key" if match.key is not None else ".".join(match.path)
    if hidden := hidden_by(rules, name):
        progress(
            f"{visible(name)} is masked ({hidden}): only records that landed without the mask are found by it"
        )
    if around is None:
        raise WrongUse("name the time: --around T, when the record came into Kafka")
    at = read_instant(around, pendulum.now("UTC"), spec.slice)
    span = timedelta(hours=within)
    slices = SliceRange.widen(at - span, at + span, spec.slice).at_most()
    progress(f"reading the files of {slices}")
    return list(finder.matching(slices, match, most, progress))


def _exit(records: list[RecordFacts]) -> None:
    if any(table.commit == "unavailable" for facts in records for table in facts.tables):
        raise typer.Exit(3)
    if not any(facts.found for facts in records):
        raise typer.Exit(1)


def _lines(spec: Pipeline, facts: RecordFacts) -> Iterator[RenderableType]:
    from sluice.flow.find.outcome import meaning, outcome_of

    outcome = outcome_of(facts)
    yield text_of(f"{facts.place}: {outcome}", style="bold")
    yield text_of(meaning(outcome, spec, facts))
    yield from map(text_of, _seat_lines(facts))
    yield from (text_of(f"row: {_row_line(row)}") for row in facts.rows)
    yield from (text_of(f"table: {_table_line(table)}") for table in facts.tables)
    yield from (text_of(f"not readable: {line}") for line in facts.unreadable)


def _seat_lines(facts: RecordFacts) -> Iterator[str]:
    location, manifest, kafka = facts.location, facts.manifest, facts.kafka
    if location is not None and location.slice is not None:
        yield f"slice: {location.slice.id} of {facts.place.cluster}, topic id {location.uuid}"
    elif location is not None and (location.after or location.before):
        yield f"boundaries: after {location.after or 'none'}, before {location.before or 'none'}"
    if manifest is not None:
        yield f"manifest: {manifest.id}, landed at {manifest.landed_at}"
        if manifest.forgotten_on:
            yield f"lake: its files were forgotten on {manifest.forgotten_on}"
        for forgotten in manifest.forgotten_records:
            gone = sum(forgotten.rejected_records.values())
            yield f"lake: the bytes of {gone:,} rejected records were forgotten on {forgotten.on}"
    if kafka is not None:
        yield f"Kafka: {kafka.error or f'it has offsets [{kafka.start}, {kafka.end}) of the partition'}"


def _row_line(row: LakeRow) -> str:
    kind = f"type {visible(row.type)}" if row.type is not None else f"rejected: {visible(row.reason or '')}"
    number = "" if row.number is None else f", element {row.number}"
    at = "" if row.event_time is None else f", event time {row.event_time.isoformat()}"
    position = f"{row.file}, row group {row.row_group}, row {row.row}"
    return f"{kind}{number}{at}: {position}"


def _table_line(table: TableRecord) -> str:
    if table.error:
        return f"{table.table}: {table.error}"
    at = f" at {table.committed_at.isoformat()}" if table.committed_at else ""
    rows = "its rows cannot be told apart" if table.rows is None else f"rows of the record: {table.rows}"
    shown = table.rejected_rows[:_MOST_REJECTED_ROWS]
    rejected_rows = "".join(f"; {visible(column)} {visible(reason)}" for column, reason, _ in shown)
    more = len(table.rejected_rows) - len(shown)
    rejected_rows += f"; {more:,} more rejected rows" if more else ""
    return f"{table.table}: {table.commit}{at}, {rows}{rejected_rows}"


def _as_json(spec: Pipeline, facts: RecordFacts) -> dict[str, Any]:
    from sluice.flow.find.outcome import meaning, outcome_of

    outcome, location, manifest = outcome_of(facts), facts.location, facts.manifest
    return {
        **asdict(facts.place),
        "outcome": str(outcome),
        "meaning": meaning(outcome, spec, facts),
        "slice": location.slice.id if location and location.slice else None,
        "topic_id": location.uuid if location else None,
        "manifest": manifest.id if manifest else None,
        "landed_at": manifest.landed_at if manifest else None,
        "forgotten": asdict(manifest.forgotten) if manifest and manifest.forgotten else None,
        "records_forgotten": [asdict(one) for one in manifest.forgotten_records] if manifest else [],
        "rows": [_row_json(row) for row in facts.rows],
        "tables": [asdict(table) for table in facts.tables],
        "unreadable": list(facts.unreadable),
        "kafka": asdict(facts.kafka) if facts.kafka else None,
    }


def _row_json(row: LakeRow) -> dict[str, Any]:
    stamp = None if row.stamp is None else ms_text(row.stamp)
    return {**asdict(row), "place": str(row.place), "stamp": stamp}

"""`sluice find`: reads the facts about records; outcome.py decides what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.base import Lake
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, WrongUse
from sluice.flow.find.read_table_records import TableReader
from sluice.flow.find.record_facts import LakeRow, PartitionEdges, RecordFacts
from sluice.flow.find.record_place import RecordPlace, SeatedOffset, seats_of
from sluice.flow.find.row_match import RowMatch
from sluice.flow.find.search_files import FileSearch
from sluice.manifest import Manifest
from sluice.runtime import deeper
from sluice.safe_text import Say
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.manifests import read_manifest, read_manifests, units_in

_MOST_ROWS = 10_000  # of a slice, held until they are sorted


@dataclass(frozen=True)
class RecordFinder:
    """Finds records of one pipeline."""

    pipeline: Pipeline
    lake: Lake
    topics_of: TopicsOf = open_topics

    def at(self, topic: str, partition: int, offset: int, cluster: str | None = None) -> list[RecordFacts]:
        """Returns the facts for each cluster that the offset may be of, and each topic id. Nothing is
        scanned: boundaries name the slice, statistics the row group. Raises WrongUse."""
        boundaries = BoundaryLog(self.lake).read()
        clusters = self._clusters(
            topic, cluster, {name for name, read_topic in boundaries.eras if read_topic == topic}
        )
        facts: list[RecordFacts] = []
        for name in clusters:
            place = RecordPlace(name, topic, partition, offset)
            seats: Iterable[SeatedOffset | None] = seats_of(boundaries, place) or [None]
            facts += [self._facts(place, seat) for seat in seats]
        return facts

    def matching(self, slices: SliceRange, match: RowMatch, most: int, say: Say) -> Iterator[RecordFacts]:
        """Yields at most `most` records of the slices that match: a scan of their files, oldest first."""
        count = 0
        manifests = read_manifests(self.lake, units_in(self.lake, slices))
        for unit, manifest in manifests.items():
            for facts in self._scanned(unit, manifest, match, say):
                yield facts
                count += 1
                if count == most:
                    return

    def _clusters(self, topic: str, cluster: str | None, in_boundaries: set[str]) -> list[str]:
        having = {c.cluster for c in self.pipeline.kafka if topic in c.topics} | in_boundaries
        if cluster is not None:
            having &= {cluster}
        if not having:
            sought = f"{cluster}/{topic}" if cluster else f"topic {topic!r}"
            raise WrongUse(f"pipeline {self.pipeline.name} has never read {sought}: name one that it reads")
        return sorted(having)

    def _facts(self, place: RecordPlace, seat: SeatedOffset | None) -> RecordFacts:
        if seat is None or seat.slice is None:
            return RecordFacts(place, seat, kafka=self._kafka(place))
        if seat.left:
            return RecordFacts(place, seat)
        unit = Unit(seat.slice, place.cluster)
        manifest = read_manifest(self.lake, unit)
        if manifest is None:
            return RecordFacts(place, seat, kafka=self._kafka(place))
        search = FileSearch(self.lake, manifest)
        rows = search.at(place)
        return self._landed(place, seat, unit, manifest, rows, rows, search.unreadable)

    def _landed(
        self,
        place: RecordPlace,
        seat: SeatedOffset,
        unit: Unit,
        manifest: Manifest,
        record_rows: Iterable[LakeRow],
        sought_rows: Sequence[LakeRow],
        unreadable: Iterable[str] = (),
    ) -> RecordFacts:
        """Compares all rows of the record with those of the tables that take the sought ones."""
        types = Counter(row.type for row in record_rows if row.type is not None)
        sought_types = {row.type for row in sought_rows if row.type is not None}
        if not sought_rows and manifest.forgotten_on:  # its type is not known any more
            sought_types = set(manifest.rows_by_type())
        tables = TableReader(self.pipeline, self.lake.url, unit, manifest).read(place, types, sought_types)
        return RecordFacts(place, seat, manifest, tuple(sought_rows), tuple(unreadable), tables)

    def _scanned(self, unit: Unit, manifest: Manifest, match: RowMatch, say: Say) -> Iterator[RecordFacts]:
        search = FileSearch(self.lake, manifest)
        rows: list[LakeRow] = []
        if manifest.forgotten_on:
            say(f"slice {unit}: files that were forgotten on {manifest.forgotten_on} are not searched")
        for forgotten in manifest.forgotten_records:
            gone = sum(forgotten.unparsed.values())
            say(
                f"slice {unit}: {gone:,} rejected records were forgotten on {forgotten.on}, and are not "
                "searched"
            )
        files = (*manifest.held_events, *manifest.held_rejected)
        say(f"slice {unit}: {len(files):,} files of {sum(file.rows for file in files):,} rows")
        for file in files:
            with deeper():
                rows += search.matching(file, match, _MOST_ROWS - len(rows))
            if len(rows) >= _MOST_ROWS:
                say(f"slice {unit}: more than {_MOST_ROWS:,} rows match; the others are not shown")
                break
        for line in search.unreadable:
            say(f"slice {unit}: not readable: {line}")
        rows.sort(key=lambda row: (row.place, row.number or 0))
        for place, matching_rows in groupby(rows, key=lambda row: row.place):
            yield self._matched(place, unit, manifest, list(matching_rows))

    def _matched(
        self, place: RecordPlace, unit: Unit, manifest: Manifest, rows: Sequence[LakeRow]
    ) -> RecordFacts:
        """Of an array more rows may have landed than those that match."""
        seat = _seat_of(unit.slice, manifest, place)
        if manifest.rows is None:
            return self._landed(place, seat, unit, manifest, rows, rows)
        search = FileSearch(self.lake, manifest)
        return self._landed(place, seat, unit, manifest, search.at(place), rows, search.unreadable)

    def _kafka(self, place: RecordPlace) -> PartitionEdges:
        try:
            return _edges(self.topics_of, self.pipeline.cluster(place.cluster), place)
        except SluiceError as error:
            return PartitionEdges(error=str(error))


def _edges(topics_of: TopicsOf, cluster: Cluster, place: RecordPlace) -> PartitionEdges:
    """Raises what the cluster raises."""
    with topics_of(cluster) as reader:
        state = reader.describe(place.topic)
        if place.partition not in state.ends:
            return PartitionEdges(error=f"topic {place.topic} has no partition {place.partition}")
        high = reader.high_watermarks(place.topic, [place.partition])
        stable = state.ends[place.partition]
        end = max(stable, high.get(place.partition, stable))
        return PartitionEdges(state.log_starts[place.partition], stable, end)


def _seat_of(slice_: Slice, manifest: Manifest, place: RecordPlace) -> SeatedOffset:
    """Returns the seat by the manifest alone."""
    uuids = [r.uuid for r in manifest.ranges if (r.topic, r.partition) == (place.topic, place.partition)]
    return SeatedOffset(uuids[0] if uuids else "", slice_, None, None)

"""The end of an erasure: removes what is left of the units as they were, and writes the receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pendulum

from sluice import crash_points
from sluice.clients.clickhouse.shards import connect_shards
from sluice.crash_points import Erase
from sluice.flow.erase.erase import Eraser
from sluice.flow.erase.left_files import remove_left
from sluice.flow.erase.left_in_kafka import left_in_kafka
from sluice.flow.erase.left_parts import LeftOnDisk, ServerParts, Wait
from sluice.flow.erase.places import (
    Place,
    comment_place,
    lake_places,
    left_tables,
    left_view_tables,
    other_places,
    state_place,
    table_place,
)
from sluice.flow.erase.receipt import receipt_of, with_what_is_left
from sluice.flow.erase.search import covered
from sluice.manifest import STAMP, Manifest
from sluice.slices import Slice, Unit
from sluice.state.erasures.erasure_list import ErasureList
from sluice.state.erasures.erasure_progress import FoundUnit, read_progress
from sluice.state.erasures.receipt_store import write_receipt


def finish(
    eraser: Eraser, number: int, erasures: ErasureList, force: bool, wrong: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the receipt, which is in the lake then. `force`: see `left_parts`. `wrong`: what verify has
    found of the units. Repeatable at any time."""
    lake, pipeline, entry = eraser.lake, eraser.pipeline, erasures.entries[number]
    progress, manifests = read_progress(lake, number), covered(pipeline, lake, entry)
    now = pendulum.now("UTC")

    def covers(slice_id: str) -> bool:
        slice_ = Slice.of_folder(slice_id, pipeline.slice)
        return slice_ is not None and entry.covers(slice_)

    removed = remove_left(lake, covers, manifests, progress, now)
    crash_points.reached(Erase.CLEANED)
    tables = eraser.loads.tables(manifests)
    bare = receipt_of(pipeline.name, number, entry, progress, manifests, tables, now.strftime(STAMP))
    kafka = left_in_kafka(pipeline, progress.found)
    receipt = with_what_is_left(lake, bare, removed, manifests, kafka, _on_disk(eraser, force), force)
    places = _places(eraser, manifests, progress.found)
    receipt["places"] = [place.as_json for place in places]
    receipt["not_searchable"] = eraser.request.unsearchable(manifests)
    receipt["left"] += [line for place in places for line in place.left]
    receipt["left"] += [f"not searchable: {line}" for line in receipt["not_searchable"]]
    receipt["left"] += [f"verify: {text}" for text in wrong]
    write_receipt(lake, number, receipt)
    crash_points.reached(Erase.RECEIPTED)
    return receipt


def waits(eraser: Eraser) -> list[Wait]:
    """Returns how long `force` will wait for each server, one after another. A load always drops tables."""
    return [left.wait(dropped=True) for left in _on_disk(eraser, force=False)]


def _places(
    eraser: Eraser, manifests: Mapping[Unit, Manifest], found: Mapping[str, FoundUnit]
) -> list[Place]:
    pipeline, lake = eraser.pipeline, eraser.lake
    ledgers = eraser.loads.ledgers(manifests) if manifests else {}
    with connect_shards(pipeline) as servers:
        left = left_tables(servers, pipeline, lake.url, eraser.request.slices)
        views = left_view_tables(servers, pipeline, lake, eraser.request.slices, manifests.keys())
        comments = comment_place(servers, pipeline)
    return [
        *lake_places(manifests, found),
        state_place(lake, eraser.request.wheres, found),
        table_place(pipeline, manifests, found, ledgers),
        left,
        views,
        comments,
        *other_places(),
    ]


def _on_disk(eraser: Eraser, force: bool) -> list[LeftOnDisk]:
    with connect_shards(eraser.pipeline) as servers:
        servers_parts = [ServerParts(server.reached, eraser.pipeline, eraser.say) for server in servers]
        return [server_parts.force() if force else server_parts.left() for server_parts in servers_parts]

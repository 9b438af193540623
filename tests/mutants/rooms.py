"""The rooms whose mutants are judged, where each is, and the tests that judge it: the only place with paths.

A room is a file that decides and does nothing. Its name stays when the file moves: verdicts and the list of
equal mutants go by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = "plugins"
PACKAGE = "sluice"
TESTS = "tests"


@dataclass(frozen=True)
class Room:
    """`at`: module within the package; `judges`: test files of tests/unit, or `folder/file`, the one that
    finds most first. `sql`: its texts are SQL, and are mutated, too."""

    at: str
    judges: tuple[str, ...]
    sql: bool = False

    @property
    def module(self) -> str:
        return f"{PACKAGE}.{self.at}"

    @property
    def path(self) -> Path:
        return ROOT / SOURCES / PACKAGE / f"{self.at.replace('.', '/')}.py"

    @property
    def tests(self) -> tuple[str, ...]:
        places = (("unit/" * ("/" not in judge) + judge).rpartition("/") for judge in self.judges)
        return tuple(f"{TESTS}/{folder}/test_{name}.py" for folder, _, name in places)


def _room(at: str, *judges: str, sql: bool = False) -> tuple[str, Room]:
    return at, Room(at, judges, sql)


ROOMS = dict(
    (
        _room("slices", "slices", "slices_edges"),
        _room("boundaries.boundary", "boundaries_stored", "clamp"),
        _room("boundaries.clamp", "clamp", "clamp_edges", "clamp_at_once"),
        _room("boundaries.columns", "boundaries_columns", "clamp", "boundaries_stored"),
        _room("boundaries.encoding", "boundaries_stored"),
        _room("boundaries.log", "boundaries_checkpoint", "boundaries_log"),
        _room("boundaries.model", "boundaries_model", "boundaries_recreated", "boundaries_log"),
        _room("boundaries.retention", "boundaries_model", "boundaries_recreated", "reads", "boundaries_kept"),
        _room("state", "state", "state_named"),
        _room("status", "status"),
        _room("plan", "plan_actions", "plan_work"),
        _room("batches", "batches", "batches_edges", "backlog"),
        _room("clusters", "clusters"),
        _room("backlog", "backlog_cases", "backlog"),
        _room("landing.reads", "landing_units", "landing_reads"),
        _room("landing.together", "landing_units", "together"),
        _room("landing.conservation", "landing_conservation"),
        _room("landing.event_hours", "event_hours_cases"),
        _room("landing.long_numbers", "long_numbers_exhaustive"),
        _room("load.decide", "load_choices"),
        _room("load.quorum", "load_quorum"),
        _room("load.placement", "load_places"),
        _room("load.place", "load_places"),
        _room("load.names", "load_choices"),
        _room("load.types", "load_places"),
        _room("lease_state", "lease_stored"),
        _room("shipping.tail", "shipping_follow"),
        _room("shipping.place", "shipping_place", "shipping_rotated"),
        _room("shipping.rotated", "shipping_rotated"),
        _room("rollups.decide", "rollups_choices"),
        _room("rollups.wanted", "rollups_hours"),
        _room("rollups.hours", "rollups_hours"),
        _room("counts.spec", "counts_cases"),
        _room("counts.conservation", "counts_cases"),
        _room("counts.fields", "counts_cases"),
        _room("verification.check", "verification_shares"),
        _room("verification.conservation", "verification_manifests"),
        _room("verification.neighbours", "verification_offsets"),
        _room("verification.files", "verification_files"),
        _room("verification.states", "verification_repairs"),
        _room("verification.stalled", "verification_stands"),
        _room("verification.shards", "verification_shares"),
        _room("verification.fed", "verification_fed"),
        _room("verification.sums", "verification_fed"),
        _room("verification.summing", "verification_summing"),
        _room("verification.view_shape", "integration/view_shape_cases", sql=True),
        _room("verification.repairs", "verification_repairs"),
        _room("verification.expiry", "verification_expiry", "integration/verification_lasting", sql=True),
        _room("contents.event", "contents_event"),
        _room("contents.judge", "contents_judge_told", "contents_judge"),
        _room("contents.merging", "contents_merging_parts", "contents_merging"),
        _room("page.lag", "page_series"),
        _room(
            "load.casts",
            *("integration/casts_documents", "integration/casts_exact", "integration/casts_evaluated"),
            "columns",
            sql=True,
        ),
        _room("load.decimals", "integration/casts_decimals", "integration/casts_evaluated", sql=True),
        _room(
            "load.times",
            *("integration/casts_edges", "integration/casts_evaluated", "integration/casts_times"),
            sql=True,
        ),
        _room("load.exact", "integration/casts_exact", "integration/casts_evaluated", "columns", sql=True),
    )
)

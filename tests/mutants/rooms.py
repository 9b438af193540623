"""The rooms whose mutants are judged, where each is, and the tests that judge it: the only place with paths.

A room is a file that decides. Verdicts and the list of equal mutants go by its name.
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
    """`at`: module within the package; `judges`: test files as `folder/file`, the one that finds most
    first. `sql`: its texts are SQL, and are mutated, too. `acts`: functions in the file that do what others
    decide: tests with the real parts judge them."""

    at: str
    judges: tuple[str, ...]
    sql: bool = False
    acts: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        return f"{PACKAGE}.{self.at}"

    @property
    def path(self) -> Path:
        return ROOT / SOURCES / PACKAGE / f"{self.at.replace('.', '/')}.py"

    @property
    def tests(self) -> tuple[str, ...]:
        places = (judge.rpartition("/") for judge in self.judges)
        return tuple(f"{TESTS}/{folder}/test_{name}.py" for folder, _, name in places)


def _room(at: str, *judges: str, sql: bool = False, acts: tuple[str, ...] = ()) -> tuple[str, Room]:
    return at, Room(at, judges, sql, acts)


ROOMS = dict(
    (
        _room("slices", "unit/slices"),
        _room(
            "flow.resolve.clamp",
            "unit/flow/resolve/clamp",
            "unit/flow/resolve/clamp_at_once",
        ),
        _room(
            "state.boundaries.boundary",
            "unit/state/boundaries/boundaries_columns",
            "unit/flow/resolve/clamp",
            "unit/state/boundaries/boundaries_log",
        ),
        _room(
            "state.boundaries.log",
            "unit/state/boundaries/boundaries_checkpoint",
            "unit/state/boundaries/boundaries_log",
        ),
        _room(
            "state.boundaries.model",
            "unit/state/boundaries/boundaries_model",
            "unit/state/boundaries/boundaries_log",
        ),
        _room(
            "state.boundaries.retention",
            "unit/state/boundaries/boundaries_model",
            "unit/state/boundaries/boundaries_retained",
            "unit/state/boundaries/boundaries_kept",
        ),
        _room("state.unit_state", "unit/state/state", "unit/state/status"),
        _room(
            "state.status",
            "unit/state/status",
            "unit/state/clusters",
            "unit/state/freshness",
            "unit/flow/verify/shards",
            "unit/flow/verify/landed_without",
            "unit/plan/plan_actions",
            "unit/plan/plan_work",
        ),
        _room(
            "plan.plan",
            "unit/plan/plan_actions",
            "unit/plan/plan_work",
            "unit/plan/waiting",
            "unit/flow/run_batches",
            "unit/flow/verify/shards",
        ),
        _room("plan.batches", "unit/plan/batches", "unit/plan/backlog"),
        _room(
            "state.units",
            "unit/state/clusters",
            "unit/flow/resolve/resolve_matching",
            "unit/flow/verify/landed_without",
        ),
        _room("plan.backlog", "unit/plan/backlog"),
        _room(
            "flow.land.read_plan",
            "unit/flow/land/landing_units",
            "unit/flow/land/together",
            "unit/flow/land/landing_parts",
            "unit/flow/land/landing_clusters",
            "unit/flow/land/landing_gaps",
            "unit/flow/land/remake_accounting",
        ),
        _room(
            "flow.land.conservation",
            "unit/flow/land/landing_conservation",
            "unit/flow/land/counts_cases",
            "unit/flow/land/landing_arrays",
        ),
        _room(
            "flow.land.gaps",
            "unit/flow/land/landing_conservation",
            "unit/flow/land/gaps",
            "unit/flow/land/landing_gaps",
        ),
        _room(
            "flow.publish",
            "unit/flow/publish/event_hours_cases",
            "unit/flow/publish/landing_event_hours",
            "unit/flow/publish/proven_hours",
            acts=("publish_range", "proven_hours"),
        ),
        _room("flow.land.task.long_numbers", "unit/flow/land/long_numbers"),
        _room(
            "flow.load.work",
            "unit/flow/load/load_choices",
            "unit/flow/load/load_rules",
            "unit/flow/load/load_decide",
            "unit/flow/verify/shards",
            "unit/flow/load/lake_values",
        ),
        _room(
            "flow.load.replicas",
            "unit/flow/load/load_quorum",
            "unit/flow/load/replicas",
            acts=("own_tables",),
        ),
        _room(
            "clients.clickhouse.shards",
            "unit/flow/load/load_places",
            "unit/clients/clickhouse/any_replica",
            "unit/flow/verify/shards",
            acts=("Server", "connect_shards", "connect_replicas", "_server", "ReadReplicas", "AnyReplica"),
        ),
        _room(
            "flow.load.source.pull",
            "unit/flow/load/load_places",
            "unit/flow/load/pull_or_push",
            "unit/flow/load/load_decide",
        ),
        _room(
            "flow.load.fencing",
            "unit/flow/load/load_choices",
            "unit/flow/load/load_decide",
            "unit/flow/load/fencing_cluster",
            "unit/flow/load/load_writer",
            acts=(
                "fence_off",
                "end_attempts",
                "_drop_and_kill",
                "left_by",
                "own_tables_of",
                "_tables",
                "_orphans",
            ),
        ),
        _room(
            "clients.clickhouse.types",
            "unit/clients/clickhouse/types",
            "unit/flow/load/load_places",
            "unit/flow/load/columns",
            "unit/infer/infer_fits",
            "unit/flow/load/rollups",
        ),
        _room("state.lease", "unit/state/lease_stored", acts=("Lease", "hold_all")),
        _room(
            "ship.log_file",
            "unit/ship/shipping_follow",
            "unit/ship/shipping_place",
            "unit/ship/shipping_rotated",
        ),
        _room(
            "ship.lines",
            "unit/ship/shipping_lines",
            "unit/ship/shipping_rotated",
        ),
        _room("flow.load.rollups.decide", "unit/flow/load/rollups_choices", "unit/flow/load/rollups"),
        _room(
            "state.ledger",
            "unit/state/ledger_rows",
            "unit/flow/load/rollups_choices",
            "unit/state/rollup_commits",
            acts=(
                "committed",
                "ask_ledger",
                "_filled_by_logs",
                "_within",
                "_parameters",
                "_seconds",
                "_rows",
                "unit_of",
                "_row",
            ),
        ),
        _room("config.counts", "unit/flow/land/counts_cases", "unit/flow/land/counts_spec"),
        _room(
            "flow.land.task.count_fields",
            "unit/flow/land/counts_cases",
            "unit/flow/land/headers_as_fields",
            acts=("CountedTexts", "Tally", "_Sums"),
        ),
        _room(
            "flow.verify.check",
            "unit/flow/verify/verification_shares",
            "unit/flow/verify/verification_repairs",
            "unit/flow/verify/verification_fed",
            "unit/flow/verify/verification_stands",
            "unit/flow/verify/verification_causes",
            "unit/flow/verify/verification",
            "unit/flow/verify/verification_forgotten",
            "unit/flow/verify/shards",
            "unit/flow/verify/verification_settling",
            "unit/flow/verify_unsettled",
        ),
        _room(
            "flow.verify.check_files",
            "unit/flow/verify/verification_files",
            "unit/flow/verify/verification_manifests",
            "unit/flow/verify/verification_offsets",
            "unit/flow/verify/verification_forgotten",
            "unit/flow/verify/landed_without",
            "unit/flow/land/landing_arrays",
        ),
        _room(
            "flow.verify.check_tables",
            "unit/flow/verify/verification_tables",
            "unit/flow/verify/verification_shares",
            "unit/flow/verify/verification_rollups",
            "unit/flow/verify/verification",
            "unit/flow/verify/verification_repairs",
            "unit/flow/verify/verification_fed",
            "unit/flow/verify/shards",
            "unit/flow/verify/verification_stands",
        ),
        _room(
            "flow.verify.repairs",
            "unit/flow/verify/verification_repairs",
            "unit/flow/verify/verification_causes",
            "unit/flow/contents/contents_repair",
        ),
        _room(
            "state.ttl",
            "unit/flow/verify/verification_expiry",
            "integration/verify/verification_lasting",
            sql=True,
        ),
        _room(
            "flow.contents.recompute",
            "unit/flow/contents/contents_event",
            "unit/flow/contents/contents_judge_told",
            "unit/flow/contents/contents_judge",
            "unit/time_grammar",
        ),
        _room("plan.lag", "unit/page/page_series", "unit/plan/lag", "unit/state/lag_history"),
        _room(
            "flow.load.casts.casts",
            "integration/casts/casts_documents",
            "integration/casts/casts_exact",
            "integration/casts/casts_evaluated",
            "unit/flow/load/columns",
            sql=True,
        ),
        _room(
            "flow.load.casts.scalars",
            "integration/casts/casts_decimals",
            "integration/casts/casts_evaluated",
            sql=True,
        ),
        _room(
            "flow.load.casts.times",
            "integration/casts/casts_edges",
            "integration/casts/casts_evaluated",
            "integration/casts/casts_times",
            sql=True,
        ),
        _room(
            "flow.load.casts.exact_numbers",
            "integration/casts/casts_exact",
            "integration/casts/casts_evaluated",
            "unit/flow/load/columns",
            sql=True,
        ),
    )
)

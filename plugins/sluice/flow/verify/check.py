"""Every equation over what was seen. Pure."""

from __future__ import annotations

from dataclasses import replace

from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.check_derived import check_counts
from sluice.flow.verify.check_files import check_files
from sluice.flow.verify.check_manifests import check_conservation
from sluice.flow.verify.check_missing_tables import after_creation, check_missing_tables, check_readers_views
from sluice.flow.verify.check_offsets import check_boundaries, check_neighbours
from sluice.flow.verify.check_shards import check_shards
from sluice.flow.verify.check_stalled import check_stalled
from sluice.flow.verify.check_states import check_states
from sluice.flow.verify.check_tables import check_tables
from sluice.flow.verify.check_views import check_views
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.repairs import Repairs

_GONE = "its cluster is not in the pipeline file: put it back there, and run `sluice verify` again"


def check(facts: VerifyFacts, repairs: Repairs) -> list[Anomaly]:
    """Returns every anomaly, those of slices first; none when all holds."""
    found = (_repairable(facts, anomaly) for anomaly in _anomalies(facts, repairs))
    return [after_creation(facts, anomaly) for anomaly in found]


def _repairable(facts: VerifyFacts, anomaly: Anomaly) -> Anomaly:
    """Kafka is not asked about a cluster that was taken out of the pipeline file."""
    gone = anomaly.cluster and anomaly.cluster not in facts.pipeline.clusters
    return replace(anomaly, command="", advice=_GONE) if gone and "reland" in anomaly.command else anomaly


def _anomalies(facts: VerifyFacts, repairs: Repairs) -> list[Anomaly]:
    tables = list(check_tables(facts, repairs))
    broken = {(anomaly.slice, anomaly.cluster, anomaly.table) for anomaly in tables}
    return [
        *check_states(facts, repairs),
        *check_missing_tables(facts, repairs),
        *check_readers_views(facts, repairs),
        *check_stalled(facts),
        *check_boundaries(facts, repairs),
        *check_neighbours(facts, repairs),
        *check_conservation(facts, repairs),
        *check_counts(facts, repairs),
        *check_files(facts, repairs),
        *tables,
        *check_shards(facts, repairs),
        *check_views(facts, repairs, broken),
    ]

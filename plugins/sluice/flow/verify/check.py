"""Every equation over what was seen. Pure."""

from __future__ import annotations

from dataclasses import replace

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_derived import check_counts
from sluice.flow.verify.check_erased import check_erased
from sluice.flow.verify.check_files import check_files
from sluice.flow.verify.check_manifests import check_conservation
from sluice.flow.verify.check_missing_tables import after_creation, check_missing_tables, check_readers_views
from sluice.flow.verify.check_offsets import check_boundaries, check_lacking, check_neighbours
from sluice.flow.verify.check_shards import check_shards
from sluice.flow.verify.check_stalled import check_stalled
from sluice.flow.verify.check_states import check_states
from sluice.flow.verify.check_tables import check_tables
from sluice.flow.verify.check_views import check_views
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.repairs import Repairs, by_hour
from sluice.state.status import UnitStatus


def check(facts: VerifyFacts, repairs: Repairs) -> list[Anomaly]:
    """Returns every anomaly, those of slices first; none when all holds."""
    anomalies = [_repairable(facts, repairs, anomaly) for anomaly in _anomalies(facts, repairs)]
    return [after_creation(facts, anomaly) for anomaly in by_hour(facts.pipeline, anomalies)]


def _without_files(facts: VerifyFacts, repairs: Repairs, anomaly: Anomaly, status: UnitStatus) -> Anomaly:
    """Rollups are made from their source's rows; all else would be loaded from files."""
    reads = "--mode repair" in anomaly.command and anomaly.table not in facts.pipeline.rollups
    if not reads and anomaly.kind is not AnomalyKind.ROWS_UNCOVERED:
        return anomaly
    advice = (
        f"the lake forgot the unit's files on {status.forgotten_on}: it can be read again only as long as "
        "Kafka has it"
    )
    return replace(anomaly, command=repairs.reland(status.unit.slice), advice=advice)


def _repairable(facts: VerifyFacts, repairs: Repairs, anomaly: Anomaly) -> Anomaly:
    """Kafka is not asked about a cluster that was taken out of the pipeline file. Nothing is loaded again
    from files that the lake has forgotten."""
    forgotten = facts.forgotten.get((anomaly.slice, anomaly.cluster))
    if forgotten is not None:
        anomaly = _without_files(facts, repairs, anomaly, forgotten)
    gone = anomaly.cluster and anomaly.cluster not in facts.pipeline.clusters
    if gone and "reland" in anomaly.command:
        return replace(anomaly, command="", advice=_advice(facts))
    return anomaly


def _anomalies(facts: VerifyFacts, repairs: Repairs) -> list[Anomaly]:
    table_anomalies = list(check_tables(facts, repairs))
    broken = {(anomaly.slice, anomaly.cluster, anomaly.table) for anomaly in table_anomalies}
    return [
        *check_states(facts, repairs),
        *check_missing_tables(facts, repairs),
        *check_readers_views(facts, repairs),
        *check_stalled(facts),
        *check_boundaries(facts, repairs),
        *check_neighbours(facts, repairs),
        *check_lacking(facts, repairs),
        *check_conservation(facts, repairs),
        *check_counts(facts, repairs),
        *check_files(facts, repairs),
        *check_erased(facts, repairs),
        *table_anomalies,
        *check_shards(facts, repairs),
        *check_views(facts, repairs, broken),
    ]


def _advice(facts: VerifyFacts) -> str:
    verify = facts.pipeline.command("verify")
    return f"its cluster is not in the pipeline file: put it back there, and run `{verify}` again"

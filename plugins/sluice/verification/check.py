"""Every equation over what was seen. Pure."""

from __future__ import annotations

from sluice.verification.anomaly import Anomaly
from sluice.verification.conservation import check_conservation
from sluice.verification.facts import Facts
from sluice.verification.fed import check_views
from sluice.verification.files import check_files
from sluice.verification.neighbours import check_boundaries, check_neighbours
from sluice.verification.repairs import Repairs
from sluice.verification.stalled import check_stalled
from sluice.verification.states import check_states
from sluice.verification.tables import check_tables


def check(facts: Facts, repairs: Repairs) -> list[Anomaly]:
    """Every anomaly, those of slices first; none when all holds."""
    tables = list(check_tables(facts, repairs))
    broken = {(anomaly.slice, anomaly.cluster, anomaly.table) for anomaly in tables}
    return [
        *check_states(facts, repairs),
        *check_stalled(facts),
        *check_boundaries(facts, repairs),
        *check_neighbours(facts, repairs),
        *check_conservation(facts, repairs),
        *check_files(facts, repairs),
        *tables,
        *check_views(facts, repairs, broken),
    ]

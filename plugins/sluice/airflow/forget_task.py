"""The `forget` task of the hourly DAG, where the pipeline file has a `keep`."""

from __future__ import annotations

import pendulum
import structlog
from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from sluice.airflow.metrics import measured
from sluice.airflow.pipelines import read_pipeline
from sluice.airflow.retries import final_errors_fail

log = structlog.get_logger(__name__)


# An hour that does not land is no reason to keep old ones, and `verify_all` does not wait for it.
@task(task_id="forget", trigger_rule="all_done")
@final_errors_fail
@measured("forget")
def forget(name: str) -> dict[str, int]:
    """Deletes files of hours that are older than `keep` in the pipeline file says; each is verified before.
    Skipped where nothing is due. A run takes a part of them."""
    from sluice.clients.lake.open import open_lake
    from sluice.flow.forget.forget_due import forget_hourly

    pipeline, now = read_pipeline(name), pendulum.now("UTC")
    turn = int(get_current_context()["dag_run"].run_after.timestamp() // pipeline.slice.total_seconds())
    forgotten = forget_hourly(pipeline, open_lake(pipeline), turn, now, log.info)
    if forgotten is None:
        raise AirflowSkipException("nothing is due")
    for unit, why in forgotten.waiting.items():
        log.warning("keeps its files for now", unit=str(unit), why=why)
    counts = {"units": len(forgotten.units), "files": forgotten.files, "bytes": forgotten.bytes}
    log.info("forgotten", **counts, waiting=len(forgotten.waiting))
    return counts

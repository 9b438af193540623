"""The `cluster` tasks: one for each cluster of a pipeline that has several, after all that needs no more
than the others. The graph shows which of them a run did without, and only there it is tried again."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.mappedoperator import MappedOperator

from sluice.airflow.assets import emit_events, pipeline_alias
from sluice.airflow.dag_settings import of_step
from sluice.airflow.hours import announce_hours, hour_outlets
from sluice.airflow.land_operator import LandOperator
from sluice.airflow.metrics import measuring
from sluice.airflow.pipelines import CLUSTER_TASK, read_pipeline
from sluice.airflow.retries import final_errors_fail
from sluice.airflow.run_params import from_xcom, mode_of, over_elsewhere, tables_of
from sluice.airflow.timeouts import extend
from sluice.config.pipeline import Pipeline
from sluice.slices import SliceRange

DOC = """\
Has everything landed from this cluster? If not, it is tried once more: landed, loaded, verified and
published by this task alone. A cluster that is still unavailable fails here, with what is missing of it;
the other clusters' hours are done, and the next run catches up. Safe to clear at any time."""


CLUSTER_NAME = "{{ task.cluster }}"


class CatchUp(LandOperator):
    """`batch` is the whole range of the run; `cluster` what it is mapped over."""

    template_fields = ("batch", "cluster")

    def __init__(self, *, cluster: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.map_index_template = CLUSTER_NAME
        self.cluster = cluster

    @final_errors_fail
    def execute(self, context: Any) -> None:
        """Raises ClusterWaits (AirflowFailException where it is permanent), and what the steps raise."""
        from sluice.flow.catch_up import catch_up

        pipeline, mode = read_pipeline(self.pipeline), mode_of(context["params"])
        slices = from_xcom(self.batch, pipeline.slice)
        extend(pipeline, "cluster", slices, context)

        def land(batch: SliceRange) -> int:
            return self._land(pipeline, batch, context, cluster=self.cluster)

        with measuring(pipeline.name, "cluster"), over_elsewhere():
            published = catch_up(
                pipeline,
                self.cluster,
                slices,
                mode,
                context["run_id"],
                land,
                self.log.info,
                tables=tables_of(pipeline, context["params"]),
            )
        emit_events(pipeline.name, published, context["outlet_events"])
        announce_hours(pipeline, published, context)


def catch_up_of_each(pipeline: Pipeline, slices: Any) -> MappedOperator:
    """Airflow shows them as `cluster[dc1]`, `cluster[dc2]`."""
    return CatchUp.partial(
        task_id=CLUSTER_TASK,
        pipeline=pipeline.name,
        connection=pipeline.spark_connection,
        batch=slices,
        outlets=[pipeline_alias(pipeline.name), *hour_outlets(pipeline)],
        trigger_rule="none_failed",
        max_active_tis_per_dag=1,
        map_index_template=CLUSTER_NAME,
        doc_md=DOC,
        **of_step(pipeline, "cluster"),
    ).expand(cluster=list(pipeline.clusters))

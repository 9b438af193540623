"""Opens the OpenLineage client as its own configuration says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from attrs import define
from openlineage.client import OpenLineageClient
from openlineage.client import event_v2 as events
from openlineage.client import facet_v2 as facets
from openlineage.client.generated import column_lineage_dataset as lineage
from openlineage.client.generated import parent_run
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields
from openlineage.client.uuid import generate_new_uuid

from sluice import __version__
from sluice.clients.openlineage.delivery import ColumnSource, Dataset, LineageEvent, Parent, RunState, Sender
from sluice.slices import utc

_SILENT = "noop"
_CONSOLE = "console"


def open_sender(config: Mapping[str, Any] | None = None) -> Sender | None:
    """What sends an event, or None where no transport is configured. `config` is the content of an
    openlineage.yml; the client adds what the environment says. Nothing is sent or asked yet.

    Raises what the client raises for a configuration that it does not understand.
    """
    client = OpenLineageClient(config=_without_git(config or {}))
    by_default = client.transport.kind == _CONSOLE and (client.config.transport or {}).get("type") != _CONSOLE
    if by_default or client.transport.kind == _SILENT:
        return None
    return Sender(lambda event: client.emit(run_event(event)), client.close, lambda: str(generate_new_uuid()))


def _without_git(config: Mapping[str, Any]) -> dict[str, Any]:
    """The client takes the Git repository of the working folder for the job's source, and would send the
    address of its remote as it stands there, with a token where it has one."""
    facets = {**config.get("facets", {}), "source_code_location": {"disabled": True}}
    return {**config, "facets": facets}


# A lineage event in the classes of the OpenLineage client. Pure.
PRODUCER = f"urn:sluice:{__version__}"
# offsets.schema.json beside this file; a change of it is a new number.
OFFSETS_SCHEMA = "urn:sluice:openlineage:1-0-0:SluiceOffsetsInputDatasetFacet.json"


@define
class SluiceOffsetsInputDatasetFacet(facets.InputDatasetFacet):
    """The offsets of a Kafka topic that a step is about, by partition."""

    partitions: list[dict[str, int]]

    @staticmethod
    def _get_schema() -> str:
        return f"{OFFSETS_SCHEMA}#/$defs/SluiceOffsetsInputDatasetFacet"


def run_event(event: LineageEvent) -> events.RunEvent:
    return events.RunEvent(
        eventTime=_instant(event.at),
        eventType=events.RunState[event.state],
        run=events.Run(event.run.run_id, _run_facets(event)),
        job=events.Job(event.run.namespace, event.run.job, {"jobType": _job_type(event)}),
        inputs=[_input(dataset) for dataset in event.datasets.inputs],
        outputs=[_output(dataset) for dataset in event.datasets.outputs],
        producer=PRODUCER,
    )


def _instant(at: datetime) -> str:
    return utc(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _job_type(event: LineageEvent) -> facets.JobFacet:
    return facets.job_type_job.JobTypeJobFacet("BATCH", "SLUICE", event.kind, producer=PRODUCER)


def _run_facets(event: LineageEvent) -> dict[str, facets.RunFacet]:
    since, until = _instant(event.since), _instant(event.until)
    facets_by_name: dict[str, facets.RunFacet] = {
        "nominalTime": facets.nominal_time_run.NominalTimeRunFacet(since, until, producer=PRODUCER),
    }
    if event.parent is not None:
        facets_by_name["parent"] = _parent(event.parent)
    if event.state is RunState.FAIL:
        failed = facets.error_message_run.ErrorMessageRunFacet(event.error, "PYTHON", producer=PRODUCER)
        facets_by_name["errorMessage"] = failed
    if event.unread:
        errors = [facets.extraction_error_run.Error(event.unread)]
        facets_by_name["extractionError"] = facets.extraction_error_run.ExtractionErrorRunFacet(
            1, 1, errors, producer=PRODUCER
        )
    return facets_by_name


def _parent(parent: Parent) -> facets.RunFacet:
    root = parent_run.Root(
        parent_run.RootRun(parent.root.run_id), parent_run.RootJob(parent.root.namespace, parent.root.job)
    )
    run, job = parent_run.Run(parent.run.run_id), parent_run.Job(parent.run.namespace, parent.run.job)
    return parent_run.ParentRunFacet(run, job, root, producer=PRODUCER)


def _input(dataset: Dataset) -> events.InputDataset:
    facets_by_name: dict[str, facets.InputDatasetFacet] = {}
    if dataset.rows is not None:
        counts = facets.input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            dataset.rows, dataset.size, dataset.files, producer=PRODUCER
        )
        facets_by_name["inputStatistics"] = counts
    if dataset.offsets:
        parts = [{"partition": p.partition, "from": p.start, "until": p.until} for p in dataset.offsets]
        facets_by_name["sluice_offsets"] = SluiceOffsetsInputDatasetFacet(parts, producer=PRODUCER)
    return events.InputDataset(*dataset.at, facets_by_name, facets=_dataset_facets(dataset))


def _output(dataset: Dataset) -> events.OutputDataset:
    facets_by_name: dict[str, facets.OutputDatasetFacet] = {}
    if dataset.rows is not None:
        counts = facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            dataset.rows, dataset.size, dataset.files, producer=PRODUCER
        )
        facets_by_name["outputStatistics"] = counts
    return events.OutputDataset(*dataset.at, facets_by_name, facets=_dataset_facets(dataset))


def _dataset_facets(dataset: Dataset) -> dict[str, facets.DatasetFacet]:
    facets_by_name: dict[str, facets.DatasetFacet] = {}
    if dataset.columns:
        columns = [
            SchemaDatasetFacetFields(name, kind, ordinal_position=number)
            for number, (name, kind) in enumerate(dataset.columns, start=1)
        ]
        facets_by_name["schema"] = SchemaDatasetFacet(columns, producer=PRODUCER)
    if dataset.sources:
        fields = {name: lineage.Fields([*_sources(source)]) for name, source in dataset.sources.items()}
        facets_by_name["columnLineage"] = lineage.ColumnLineageDatasetFacet(fields, producer=PRODUCER)
    return facets_by_name


def _sources(source: ColumnSource) -> Iterator[lineage.InputField]:
    changed = lineage.Transformation(
        "DIRECT",
        "TRANSFORMATION" if source.cast else "IDENTITY",
        f"as {source.cast}, or the row is a rejected row" if source.cast else None,
        masking=False,
    )
    for field in source.fields:
        yield lineage.InputField(*source.dataset, field, [changed])

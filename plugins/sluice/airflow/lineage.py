"""The steps of a task as OpenLineage runs below the task's own, which Airflow's provider reports.

What is configured for the provider (`[openlineage]`, OPENLINEAGE_…) is taken as it is, its emission policy
too. Without the provider the client's own configuration is asked, and the steps have no parent. Where
nothing is configured, nothing of it is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException

from sluice.clients.openlineage.delivery import configured
from sluice.clients.openlineage.values import Parent, RunOfJob
from sluice.safe_text import line

if TYPE_CHECKING:
    from sluice.flow.lineage.runs import Destination


@contextmanager
def lineage_of_task() -> Iterator[None]:
    """Reports the steps inside. Nothing that has to do with lineage ends the task."""
    if not _asked_for():
        yield
        return
    from sluice.flow.lineage.observe import listening

    with listening(_destination):
        yield


def _has_provider() -> bool:
    return find_spec("airflow.providers.openlineage") is not None


def _asked_for() -> bool:
    if not _has_provider():
        return configured()
    from airflow.providers.openlineage import conf

    try:
        return not conf.is_disabled()
    except Exception:  # a configuration that cannot be read: `_destination` meets it again, and is logged
        return True


def _destination() -> Destination | None:
    """None where the provider's policy leaves the task out. Raises what provider and client raise."""
    if not _has_provider():
        from sluice.flow.lineage.observe import from_environment

        return from_environment()
    from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
    from airflow.providers.openlineage.utils.emission_policy import resolve_task_emission_policy

    from sluice.clients.openlineage.open_client import open_sender
    from sluice.flow.lineage.runs import Destination

    context = get_current_context()
    ti: Any = context["ti"]
    if not resolve_task_emission_policy(context["task"], ti.dag_id, ti.task_id).emit:
        return None
    # A client of its own: the provider's is used by processes that it forks from this one.
    sender = open_sender(OpenLineageAdapter().get_openlineage_config())
    parent = _parent(ti)
    return None if sender is None else Destination(sender, parent.run.namespace, parent, _line_of)


def _parent(ti: Any) -> Parent:
    from airflow.providers.openlineage.plugins import macros

    of: Any = macros  # its functions have no types
    root = (of.lineage_root_job_namespace(ti), of.lineage_root_job_name(ti), of.lineage_root_run_id(ti))
    return Parent(
        RunOfJob(of.lineage_job_namespace(), of.lineage_job_name(ti), of.lineage_run_id(ti)), RunOfJob(*root)
    )


def _line_of(error: BaseException) -> str:
    """As the task's log has it, with Airflow's masking: the landing's errors are Airflow's, too."""
    from airflow.sdk._shared.secrets_masker import redact

    from sluice.flow.lineage.runs import own_line

    text = line(str(error)) if isinstance(error, AirflowException) else own_line(error)
    return str(redact(text))

"""Who may see what: Airflow's own access checks, of whichever auth manager it has.

The whole page needs the right to see plugins; a pipeline the right to read its DAG; a plan, which makes
Kafka work, and a start the right to trigger the backfill DAG. What is wrong with a pipeline file is for those
who may edit its DAG. Payloads need a right of their own, the custom
view `Sluice Payloads`, and the right to edit the pipeline's DAG: Airflow's simple auth manager grants every
custom view to every viewer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Path

from sluice.airflow.api.gate import Turn
from sluice.airflow.pipelines import Selection, backfill_dag_id, find_pipelines
from sluice.config.page import Payloads
from sluice.config.pipeline import Pipeline
from sluice.config.types import check_name
from sluice.page.rejected_samples import shared_payloads

PAYLOADS = "Sluice Payloads"
MOST_NAME = 250  # as many letters as Airflow gives a DAG's id
may_see_page = Depends(requires_access_view(AccessView.PLUGINS))


def may_read(user: BaseUser, pipeline: str) -> bool:
    return _may(user, pipeline, "GET", None)


def may_start(user: BaseUser, pipeline: str) -> bool:
    return _may(user, backfill_dag_id(pipeline), "POST", DagAccessEntity.RUN)


def may_edit(user: BaseUser, pipeline: str) -> bool:
    return _may(user, pipeline, "PUT", None)


def may_see_payloads(user: BaseUser, pipeline: str) -> bool:
    granted = get_auth_manager().is_authorized_custom_view(method="GET", resource_name=PAYLOADS, user=user)
    return granted and may_edit(user, pipeline)


def _may(
    user: BaseUser, dag_id: str, method: Literal["GET", "POST", "PUT"], entity: DagAccessEntity | None
) -> bool:
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method=method, access_entity=entity, details=details, user=user
    )


def readable(pipeline: Annotated[str, Path(max_length=MOST_NAME)], user: GetUserDep) -> str:
    """Returns the name of a pipeline that the caller may read, if it is there."""
    with suppress(ValueError):
        if may_read(user, check_name(pipeline)):
            return pipeline
    raise _not_there(pipeline)


def startable(name: Annotated[str, Depends(readable)], user: GetUserDep) -> str:
    if not may_start(user, name):
        raise HTTPException(403, f"you may not trigger the DAG {backfill_dag_id(name)}")
    return name


def readable_pipeline(name: Annotated[str, Depends(readable)], _: Turn) -> Pipeline:
    """Returns the pipeline of that name. 404 also where the user may not read its DAG: names are secret."""
    return _find(name)


def startable_pipeline(name: Annotated[str, Depends(startable)], _: Turn) -> Pipeline:
    return _find(name)


def _find(name: str) -> Pipeline:
    for _, pipeline in find_pipelines(selection=Selection(among=frozenset({name}))).sound:
        return pipeline
    raise _not_there(name)


def _not_there(name: str) -> HTTPException:
    return HTTPException(404, f"no pipeline {name!r} that you may read")


def payloads_of(pipeline: Annotated[Pipeline, Depends(readable_pipeline)], user: GetUserDep) -> Payloads:
    """Returns how the caller sees payloads: at most as the pipeline file says, and those of the pipelines
    that share a topic or a table with it."""
    configured = shared_payloads(pipeline, (one for _, one in find_pipelines().sound))
    return "masked" if configured == "shown" and not may_see_payloads(user, pipeline.name) else configured


Readable = Annotated[Pipeline, Depends(readable_pipeline)]
Startable = Annotated[Pipeline, Depends(startable_pipeline)]
ShownPayloads = Annotated[Payloads, Depends(payloads_of)]

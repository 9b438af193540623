"""Airflow's own web server with the page, over pipeline files of a benchmark.

    python -m benchmarks.page_server FOLDER PORT

FOLDER holds the pipeline files. Prints a login's token and a line for each endpoint of the page (method,
path, names of the query), and serves on 127.0.0.1 until it is ended. Everything
is what a browser meets in production (Airflow's middlewares, its access checks and database, the page's app);
only the folder of the pipeline files is another, and there is no scheduler.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from local.environment import HOST
from local.versions import ROOT

RUN = "manual__1"
"""The id of the backfill run that each pipeline has."""


def environment(home: Path) -> dict[str, str]:
    """For a process of this module: an Airflow of its own under `home`."""
    own = {
        "CORE__DAGS_FOLDER": str(home / "dags"),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
    }
    named = {f"AIRFLOW__{name}": value for name, value in own.items()}
    return {**os.environ, **named, "AIRFLOW_HOME": str(home), "PYTHONPATH": str(ROOT / "plugins")}


def serve(folder: Path, port: int) -> None:
    import uvicorn
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.utils.db import initdb

    os.environ["SLUICE_PIPELINES"] = str(folder)
    initdb()
    app = create_app("core")
    note_runs(path.stem for path in folder.glob("*.yaml"))
    admin = SimpleAuthManagerUser(username="admin", role="ADMIN", teams=None)
    print(f"token {get_auth_manager().generate_jwt(admin)}", flush=True)
    say_endpoints()
    uvicorn.run(app, host=HOST, port=port, log_level="error")


def note_runs(pipelines: Iterable[str]) -> None:
    """A backfill that has ended, of each pipeline: what progress and past backfills are asked for."""
    import pendulum
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType

    now = pendulum.now("UTC")
    with create_session() as session:
        for name in pipelines:
            run = DagRun(
                dag_id=f"{name}_backfill",
                run_id=RUN,
                run_type=DagRunType.MANUAL,
                start_date=now,
                run_after=now,
                state="success",
            )
            run.end_date = now
            session.add(run)


def say_endpoints() -> None:
    from fastapi.routing import APIRoute

    from sluice.airflow.api.app import create_app

    for route in create_app().routes:
        if isinstance(route, APIRoute):
            names = [field.alias for field in route.dependant.query_params]
            for method in sorted(route.methods):
                print("endpoint", method, route.path_format, *names, flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))

"""Airflow's own web server with the page, over pipeline files of a benchmark.

    python -m benchmarks.page_server FOLDER PORT

FOLDER holds the pipeline files. Prints a login's token, and serves on 127.0.0.1 until it is ended. Everything
is what a browser meets in production (Airflow's middlewares, its access checks and database, the page's app);
only the folder of the pipeline files is another, and there is no scheduler.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from local.environment import HOST
from local.versions import ROOT


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
    admin = SimpleAuthManagerUser(username="admin", role="ADMIN", teams=None)
    print(f"token {get_auth_manager().generate_jwt(admin)}", flush=True)
    uvicorn.run(app, host=HOST, port=port, log_level="error")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))

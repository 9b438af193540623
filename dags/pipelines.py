"""Every sound file of include/pipelines becomes two Airflow DAGs: `<name>`, hourly, and `<name>_backfill`.

A file that is wrong is shown as an import error of pipeline_errors.py.
"""

from __future__ import annotations

from sluice.airflow.dags import pipeline_dags

globals().update(pipeline_dags())

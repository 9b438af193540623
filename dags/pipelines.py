"""Every sound file of include/pipelines becomes three Airflow DAGs: `<name>`, `_backfill` and `_watch`.

A file that is wrong is shown as an import error of pipeline_errors.py.
"""

from __future__ import annotations

from sluice.airflow import pipeline_dags

globals().update(pipeline_dags())

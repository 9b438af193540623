"""Shows as an Airflow import error that a pipeline file is wrong.

It is a file of its own because Airflow stops every DAG of a file that has an import error, and a mistake
in one pipeline must not stop the others.
"""

from __future__ import annotations

from sluice.airflow import raise_mistakes

raise_mistakes()

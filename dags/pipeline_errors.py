"""Shows as an Airflow import error what is wrong with a pipeline file: file, key and what was expected.

It is a file of its own because Airflow stops every DAG of a file that has an import error, and a mistake
in one pipeline must not stop the others.
"""

from __future__ import annotations

from sluice.airflow import raise_mistakes

raise_mistakes()

"""DAGs, tasks and operators: the only room that imports Airflow."""

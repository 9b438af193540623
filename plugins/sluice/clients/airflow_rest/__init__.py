"""Airflow's REST API (v2): starts a pipeline's backfill DAG, and waits for it."""

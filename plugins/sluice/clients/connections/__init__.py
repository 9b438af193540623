"""Airflow connections, found the same way in Airflow and outside it."""

"""The page inside Airflow's UI: what it shows, without Airflow itself (that is sluice.airflow.api)."""

"""The page's Airflow side: the app under Airflow's navigation, who may do what, and Airflow's own runs."""

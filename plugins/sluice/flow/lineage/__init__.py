"""What OpenLineage gets of the steps: each as a run, with the datasets that it reads and writes."""

"""What is stored about a unit: boundaries, manifests, ledger, leases, summaries, timings."""

"""What the measurements share: databases, rows, workloads, clocks, counts, reports."""

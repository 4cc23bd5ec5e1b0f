"""The runtime: what starts documents, what a worker needs to run them, and how their runs are seen."""

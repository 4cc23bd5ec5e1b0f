"""One workflow, as a caller holds it: its start, its handle, its messages, its result."""

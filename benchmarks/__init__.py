"""Benchmarks: what Outlast does in a second, beside what the database can do with the same rows."""

"""Benchmarks: what Outlast does per second, compared with what the database can do with the same rows."""

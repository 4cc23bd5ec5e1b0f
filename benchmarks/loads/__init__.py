"""Loads other than throughput, each with its target."""

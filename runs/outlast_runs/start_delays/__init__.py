"""Starts that wait: moved to another instant, or debounced."""

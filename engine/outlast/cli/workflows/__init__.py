"""Commands about workflows: start, list, describe, signal, query, update, cancel, reset."""

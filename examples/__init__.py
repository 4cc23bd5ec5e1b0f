"""Small programs that show how things are done; each runs as it stands: ``python -m examples.order_saga``."""

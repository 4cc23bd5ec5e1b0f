"""Small programs that show how things are done. Each can be run: ``python -m examples.order_saga``."""

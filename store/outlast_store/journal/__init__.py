"""The group-commit writer: batches of changes, each batch one transaction."""

"""The alembic environment and the schema's versions."""

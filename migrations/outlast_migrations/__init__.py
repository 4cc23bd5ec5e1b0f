"""Migrations: the versions of the schema, and the steps between them, run by Alembic without an ini file."""

from outlast_migrations.revisions import HEAD, REVISIONS, current_revision, head_revision
from outlast_migrations.runner import downgrade, migrate, migration_sql

__all__ = ["HEAD", "REVISIONS", "current_revision", "downgrade", "head_revision", "migrate", "migration_sql"]

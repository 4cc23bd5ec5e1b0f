"""The store: tables, statements, the journal, SQLite and PostgreSQL."""

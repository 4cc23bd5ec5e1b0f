"""How Outlast connects to SQLite and PostgreSQL, and the text of its statements."""

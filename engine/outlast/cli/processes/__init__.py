"""Commands about processes and the schema: worker, watchdog, supervisor, top, check, migrate, demo."""

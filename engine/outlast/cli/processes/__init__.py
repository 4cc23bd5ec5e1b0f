"""Commands that run or look after the engine: worker, watchdog, top, check, migrate, demo."""

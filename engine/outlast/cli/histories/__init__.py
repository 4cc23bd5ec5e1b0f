"""Commands about recorded histories: export, import, replay, delete and retention."""

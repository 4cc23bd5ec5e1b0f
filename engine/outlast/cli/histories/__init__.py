"""Commands about recorded histories: export and import, replay, deletion."""

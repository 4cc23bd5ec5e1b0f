"""What of documents does the dashboard show? Found by the entry point ``outlast.pages``, and only by that."""

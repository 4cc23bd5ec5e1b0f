"""What one process has open on one database, shared by its clients and workers."""

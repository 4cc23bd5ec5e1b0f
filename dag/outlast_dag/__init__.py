"""DAGs: graphs of steps, each with a mandatory timeout, that run as ordinary workflows."""

"""The commands about queues."""

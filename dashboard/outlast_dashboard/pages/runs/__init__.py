"""The list of runs: its filters, what is chosen in it, and one action on many."""

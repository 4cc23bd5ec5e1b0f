"""Plans: what is run. A definition with its pointers, durations, templates and extensions worked out."""

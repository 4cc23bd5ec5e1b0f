"""The timeline of a run: its axis, what of it is drawn, and how."""

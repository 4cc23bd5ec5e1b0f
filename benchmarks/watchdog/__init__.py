"""How well deadlines are kept."""

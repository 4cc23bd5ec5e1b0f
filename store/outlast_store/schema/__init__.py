"""The tables, their rows as objects, and the index of search attributes."""

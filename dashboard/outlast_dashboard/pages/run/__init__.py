"""The page of one run, part by part, and what can be done there."""

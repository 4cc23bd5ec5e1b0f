"""Who has access, and what they may do."""

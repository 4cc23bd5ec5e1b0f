"""Options and limits, checked by one validator."""

"""What the API accepts and returns: fields, filters, models, and what is hidden from whom."""

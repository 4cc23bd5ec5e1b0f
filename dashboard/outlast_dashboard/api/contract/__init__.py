"""What the API accepts and returns: fields, filters, models, problems, and which payloads are hidden."""

"""The bus: events that were published, who listens to what, and the router between them."""

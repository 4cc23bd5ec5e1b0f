"""Documents: text that becomes a checked definition, or everything that is wrong with it."""

"""Rules: what is wrong with a definition that the schema accepts, or that somebody should look at."""

"""Events: what a CloudEvent is, and which ones a filter may take."""

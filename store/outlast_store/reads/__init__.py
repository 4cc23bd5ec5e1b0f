"""The reads: one function a question, on a connection that is passed in."""

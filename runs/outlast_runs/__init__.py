"""What may happen to a run: start, workflow task, signal, update, cancel, deadline, claim, reset."""

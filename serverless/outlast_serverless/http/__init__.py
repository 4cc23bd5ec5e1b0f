"""Routes of the control plane: documents, their runs and schedules, and events that come in."""

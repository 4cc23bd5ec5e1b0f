"""Deadline alerts: which marks a row arms, how they are kept in step with it, and what is read of them."""

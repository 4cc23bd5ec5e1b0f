"""What documents cost."""

"""What tests of workflows need."""

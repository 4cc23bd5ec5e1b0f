"""What is wrong with a spec, and how long its runs take at most."""

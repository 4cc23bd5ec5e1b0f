"""What clients show of workflows: views, descriptions, listings and the overview."""

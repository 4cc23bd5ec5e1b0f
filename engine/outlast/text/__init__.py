"""Text that the command line and the dashboard share: parsing what people type, wording what they read."""

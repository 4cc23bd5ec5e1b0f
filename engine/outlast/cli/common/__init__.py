"""What commands share: the connection, options, filters, output, exit codes, and loading the user's code."""

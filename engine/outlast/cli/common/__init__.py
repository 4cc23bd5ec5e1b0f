"""What commands share: the connection, options, output, exit codes, and finding the user's code."""

"""``call: mcp``: one request to a server of the Model Context Protocol."""

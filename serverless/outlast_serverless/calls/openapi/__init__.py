"""``call: openapi``: an operation of a described API becomes one HTTP request."""

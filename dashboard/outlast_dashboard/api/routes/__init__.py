"""The API's routes, one module a noun."""

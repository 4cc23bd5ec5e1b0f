"""AsyncAPI: messages are published to channels, and consumed from them."""

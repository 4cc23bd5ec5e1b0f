"""``call: grpc``: services that a proto describes."""

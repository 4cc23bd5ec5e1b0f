"""Pages for people, rendered on the server and kept live by server-sent fragments. There is nothing to build."""

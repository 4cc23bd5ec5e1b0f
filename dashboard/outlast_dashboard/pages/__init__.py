"""Pages for people: rendered here and kept live by server-sent fragments; nothing to build."""

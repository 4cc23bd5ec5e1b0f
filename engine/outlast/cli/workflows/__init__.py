"""Commands about workflows: start, list, describe, history, messages, endings, reset, resume and bulk."""

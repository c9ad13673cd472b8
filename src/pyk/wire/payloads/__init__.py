"""Messages inside other messages, and on internal topics."""

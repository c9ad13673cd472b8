"""Kafka's protocol as bytes and values: no sockets, no files, no clock."""

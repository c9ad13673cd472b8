"""Kafka's configuration: every key that pyk knows, where values come from, and how they change."""

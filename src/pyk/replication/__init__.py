"""Partitions and their replicas: what leads, follows, and is committed."""

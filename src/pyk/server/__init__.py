"""Bytes from and to sockets."""

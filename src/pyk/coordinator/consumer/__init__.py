"""Consumer groups (KIP-848): members who are told by the broker."""

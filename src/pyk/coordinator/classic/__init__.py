"""Classic groups: members who share partitions out among themselves."""

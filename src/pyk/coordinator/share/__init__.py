"""Share groups: members who read the same partitions together (KIP-932).

    ShareGroupHeartbeat -> ShareGroups.heartbeat -> records -> ShareGroup

A member says what it subscribes to, and is told what to read. Partitions have as many readers as it
takes to give everybody work. What a group has read of a partition is not known here: that the state
of a partition was begun elsewhere is, and only such a partition is given to anybody.
"""

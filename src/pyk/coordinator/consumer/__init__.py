"""Consumer groups whose members are assigned their partitions by the broker (KIP-848).

    ConsumerGroupHeartbeat -> ConsumerGroups.heartbeat -> records -> ConsumerGroup

A member says what it subscribes to and what it owns; an assignor makes a target for the whole
group, and each member moves towards its own part of it, a heartbeat at a time. All that is known is
in the log, but for who was heard of when.
"""

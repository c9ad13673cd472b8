"""Share partitions of one shard of `__share_group_state`, as a machine."""

"""Share groups at the leaders of their partitions (KIP-932): who has which record, for how long.

    ShareFetch, ShareAcknowledge -> Shares -> Share -> SharePartition decides -> Persister keeps

`share_partition.py` is pure; `shares.py` has the shell around it.
"""

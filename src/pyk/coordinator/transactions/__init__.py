"""Transactions of one shard of `__transaction_state`, as a machine."""

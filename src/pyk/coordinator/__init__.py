"""Groups and their offsets: state that lives on internal topics.

A shard for each partition of such a topic, which is a shell around a pure machine:

    handler -> Shard.execute -> machine decides -> Journal appends -> machine applies -> answer

`machine.py` has the shape of all machines.
"""

"""Classic groups: members join, one of them shares out the work, and each is handed its part.

The broker keeps who is in, in which generation, and what the leader has decided. It does not look
into what members say to each other, which may be about partitions, or about connectors.
"""

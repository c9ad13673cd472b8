"""What the cluster knows of itself: a small store of keys, and the image that handlers read.

    store      the interface: revisions, transactions, watches, leases; etcd will have it, too
    embedded   one node's: state (pure), journal (its file), and the tasks around them
    records    the values, JSON that readers of other versions can read
    image      all of them in one immutable value; mirror keeps it up to date by a watch
    controller what to write for a request, decided from an image; nothing here waits

The keys, beneath whatever root a shared store puts before them:

    cluster                       ClusterRecord: the id, written once
    features                      FeaturesRecord: finalized levels; its revision is their epoch
    brokers/<id>                  BrokerRecord, with the broker's lease; created at = broker epoch
    topics/<name>                 TopicRecord: the id, and each partition as it was created
    partitions/<topic id>/<n>     PartitionState: the partition as it is, once that has changed
    configs/topics/<name>         configurations, a JSON object of text, like the next two
    configs/brokers/<id>
    configs/broker-defaults
    producer-ids                  ProducerIdsRecord: where the next block begins

A topic is one key, however many partitions it has, so it is created in one small transaction, and a
leader that changes its in-sync set touches nothing that another leader does.
"""

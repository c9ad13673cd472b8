"""A small blocking client: plain sockets and `pyk.wire`, quick to import, for the command line and
for tests. It speaks to any broker of Kafka's protocol.

    with Cluster.connect("localhost:9092") as cluster:
        with Producer(cluster) as producer:
            producer.send("orders", b"first", key=b"k")
        for received in Reader.of_topic(cluster, "orders"):
            print(received.partition, received.record.value)

Unreachable is raised where nobody answers, KafkaError where the broker refuses.
"""

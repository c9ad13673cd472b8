"""Apache Kafka itself as the judge: its jars, its message schemas, its codec and its broker."""

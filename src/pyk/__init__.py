"""pyk: a broker that unmodified Apache Kafka clients use as they use Kafka."""

__version__ = "0.1.0"

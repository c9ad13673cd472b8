"""A data pipeline on Spark, as small jobs: from events as they come to answers that are audited."""

"""Apache Kafka: records read and written in batches, one transaction a commit."""

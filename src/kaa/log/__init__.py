"""The log: segments, indexes, checkpoints, recovery, retention and compaction, in Kafka's files."""

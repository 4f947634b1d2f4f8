"""Settings: Kafka's names, types, defaults and rules for brokers, topics, groups, clients."""

"""The one Kafka version that Kaa speaks, and that its tests compare it with."""

KAFKA_VERSION = "4.3.1"

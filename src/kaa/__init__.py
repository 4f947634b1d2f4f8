"""Kaa: an Apache-Kafka-compatible event-streaming platform whose data pipeline runs on Spark."""

__version__ = "0.1.0"

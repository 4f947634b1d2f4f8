"""The asyncio client of Kafka's protocol: producer, consumer and admin on ``kaa.wire``."""

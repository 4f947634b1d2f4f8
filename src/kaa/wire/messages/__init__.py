"""Every message of the pinned Kafka, one module per API; loaded only when used."""

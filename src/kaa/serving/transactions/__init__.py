"""What brokers do for transactions beside the coordinator itself.

| Module | What it does |
|---|---|
| `addition_batches` | questions to a coordinator on another broker, many with one request |
| `additions` | AddPartitionsToTxn, as the coordinator answers it |
| `batches` | the transactional batches of a produce request |
| `markers` | writes the markers that end transactions on partitions of this broker |
| `peers` | the brokers, as they serve each other |
| `verification` | asks the coordinator before a transaction first writes to a partition |
"""

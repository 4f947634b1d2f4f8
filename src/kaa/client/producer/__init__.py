"""The producer.

| module | what it owns |
|---|---|
| `partitioner` | the partition of a record, as in Java |
| `delivery` | what a sender waits for, and where its record went |
| `accumulator` | the machine: batches, order, sequences |
| `requests` | produce requests, and what their answers say |
| `sender` | the tasks that send |
| `transaction_machine` | which calls are allowed when, and what an error means |
| `transactions` | the calls to coordinators that it allows |
| `producer` | the class around them |
"""

"""The client for scripts without asyncio: the same classes, each on a thread with its own loop.

    from kaa.client.sync import Consumer, Producer

    with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        producer.send("orders", b"value").result()
    with Consumer({"bootstrap.servers": "localhost:9092", "group.id": "billing"}) as consumer:
        consumer.subscribe(["orders"])
        print(consumer.poll(timeout_ms=1000))

A method waits until its asynchronous twin is done and gives or raises the same. Objects may be used
by several threads; calls run one at a time on the loop.

| module | what it owns |
|---|---|
| `thread` | the thread and the loop that a client lives on |
| `at_exit` | what a program left open when it ends |
| `sends` | records from threads on their way to a producer |
| `clients` | `Producer` and `Consumer` |
| `share` | `ShareConsumer` |
| `admin` | `Admin` |
"""

from typing import TYPE_CHECKING

from kaa.lazy import lazy_names

if TYPE_CHECKING:
    from kaa.client.sync.admin import Admin
    from kaa.client.sync.clients import Consumer, Producer
    from kaa.client.sync.share import ShareConsumer

__all__ = ["Admin", "Consumer", "Producer", "ShareConsumer"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kaa.client.sync.admin": ["Admin"],
        "kaa.client.sync.clients": ["Consumer", "Producer"],
        "kaa.client.sync.share": ["ShareConsumer"],
    },
)

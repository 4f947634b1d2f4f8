"""The composition root: builds a node out of its parts, and starts and stops them in order.

Nothing below imports this package. `node` is the place to start reading.
"""

from kaa.broker.directories import StartError
from kaa.broker.node import Broker, running

__all__ = ["Broker", "StartError", "running"]

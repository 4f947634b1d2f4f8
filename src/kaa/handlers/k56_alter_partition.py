"""AlterPartition, key 56: a leader tells which replicas are in sync with it (KIP-497).

Version 2 has topic ids, version 3 the epochs of the brokers in the set, so that one that restarted
unseen is not taken for in sync (KIP-903).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse


def handle(
    services: NodeServices, request: AlterPartitionRequest, context: RequestContext
) -> Answer[AlterPartitionResponse]:
    return Pending(forward(services, request, context))

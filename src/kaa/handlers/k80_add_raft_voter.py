"""AddRaftVoter, key 80: one more voter of the metadata quorum (KIP-853).

| version | what is new |
|---|---|
| 1 | the answer need not wait for the commit, for a controller that adds itself |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(
    services: NodeServices, request: AddRaftVoterRequest, context: RequestContext
) -> Answer[AddRaftVoterResponse]:
    return Pending(forward(services, request, context))

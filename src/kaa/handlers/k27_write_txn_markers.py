"""WriteTxnMarkers, key 27: ends transactions on partitions that this broker leads.

Sent by transaction coordinators, and by tools that abort a transaction whose coordinator forgot it.
Version 2 says which transaction version the marker has: from 2 on its epoch has to be newer than
that of the records (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k27_write_txn_markers import (
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )


def handle(
    services: Services, request: WriteTxnMarkersRequest, _context: RequestContext
) -> Answer[WriteTxnMarkersResponse]:
    return Pending(services.markers.write(request))

"""ApiVersions, key 18: what this listener serves, and the features of the cluster.

Version 3 on, the client says which software it is; a name or version that does not fit Kafka's
pattern is refused (KIP-511). A version newer than this node knows never reaches this handler: it is
answered in version 0 (`registry`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kaa.controller.feature_table import KRAFT_VERSION, supported_ranges
from kaa.wire.errors import Errors
from kaa.wire.messages.k18_api_versions import (
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k18_api_versions import ApiVersionsRequest

# Letters and digits, with `-` and `.` inside.
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)
_SOFTWARE_VERSION: Final = 3
# From this version on a client can read a feature whose lowest level is 0 (KIP-1022).
_LEVEL_ZERO_VERSION: Final = 4


def handle(
    services: NodeServices, request: ApiVersionsRequest, context: RequestContext
) -> Answer[ApiVersionsResponse]:
    version = context.api_version
    if version >= _SOFTWARE_VERSION:
        named = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(text) for text in named):
            return ApiVersionsResponse(error_code=Errors.INVALID_REQUEST)
        context.connection.facts["software"] = named
    return ApiVersionsResponse(
        api_keys=services.api_versions[context.listener_name],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in supported_ranges().items()
            if low > 0 or version >= _LEVEL_ZERO_VERSION
        ],
        finalized_features_epoch=services.image_offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(_finalized(services).items())
        ],
    )


def _finalized(services: NodeServices) -> dict[str, int]:
    """The levels that are not 0; the quorum's own stands in its log, not in the metadata."""
    levels = {**services.image.features, KRAFT_VERSION: services.quorum.kraft_version}
    return {name: level for name, level in levels.items() if level > 0}

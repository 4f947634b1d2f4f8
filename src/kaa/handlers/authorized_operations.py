"""What a client may do, as bit fields of AclOperation codes (KIP-430).

Without an authorizer everybody may do everything that makes sense on a kind of resource.
"""

from __future__ import annotations

from typing import Final

NOT_ASKED: Final = -(2**31)
"""The client did not want to know."""
# READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
TOPIC: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
# CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE.
CLUSTER: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
GROUP: Final = sum(1 << code for code in (3, 6, 8, 10, 11))

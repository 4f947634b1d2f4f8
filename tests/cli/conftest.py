from __future__ import annotations

from tests.support.both_clusters import bootstrap, kaa_node, topic_name

__all__ = ["bootstrap", "kaa_node", "topic_name"]

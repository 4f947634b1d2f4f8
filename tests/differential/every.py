"""All cases: importing this module registers them."""

from __future__ import annotations

from tests.differential import (
    cases_cluster,
    cases_configs,
    cases_consumer_groups,
    cases_data,
    cases_groups,
    cases_quorum,
    cases_security,
    cases_share_fetch,
    cases_share_groups,
    cases_streams_groups,
    cases_topics,
    cases_transactions,
)
from tests.differential.case import CASES

__all__ = [
    "CASES",
    "cases_cluster",
    "cases_configs",
    "cases_consumer_groups",
    "cases_data",
    "cases_groups",
    "cases_quorum",
    "cases_security",
    "cases_share_fetch",
    "cases_share_groups",
    "cases_streams_groups",
    "cases_topics",
    "cases_transactions",
]

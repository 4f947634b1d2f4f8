"""Care for a table between the rounds of its committer, by a policy that the table keeps.

`maintenance=auto` looks at the table every five minutes, and after the last round of a committer
that stops when it has read all, and does what is due:

| when | what is done |
|---|---|
| more than 100 manifests | they are written together |
| more than 100 files, or files with deletes | small ones and those with deletes are compacted |
| versions older than a week | they are forgotten, except the last ten |
| a day after it began, and then each day | orphans are deleted |

Tables with one row per key are not compacted: each round keeps the buckets that it touches from
falling to pieces (`upsert` says how), and a few deleted rows are no reason to write all again.

Whether there is so much is seen in the summary of the newest snapshot, which costs nothing. All of
it takes at most a fifth of the time. It is never a reason to stop: what fails is left to the next
look, and said in the log. `maintenance=off` leaves it to commands.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kaa.limits import (
    LAKE_CARE_FILES_MAX,
    LAKE_CARE_SECONDS,
    LAKE_CARE_SHARE_MAX,
    LAKE_COMMIT_GROUPS,
    LAKE_KEEP_SECONDS,
    LAKE_KEEP_VERSIONS,
    LAKE_ORPHAN_AGE_SECONDS,
)
from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.maintenance import (
    count_files,
    count_manifests,
    expire,
    plan_expiry,
    plan_orphans,
    remove_orphans,
    rewrite_manifests,
)
from kaa.spark.lake.table import ConflictError, LakeError, UnknownOutcomeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.spark.lake.running import Runner
    from kaa.spark.lake.table import LakeTable

_LOG = logging.getLogger(__name__)


class Caretaker:
    """Looks after one table."""

    def __init__(
        self, table: LakeTable, runner: Runner, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._table = table
        self._runner = runner
        self._now = now
        self._is_on = table.settings.maintenance == "auto"
        self._began = self._looked = self._cleaned = now()
        self._spent_seconds = 0.0

    def look(self, *, is_last: bool = False) -> list[str]:
        """Does what is due; what that was."""
        started = self._now()
        is_time = is_last or started - self._looked >= LAKE_CARE_SECONDS
        is_too_much = self._spent_seconds > LAKE_CARE_SHARE_MAX * (started - self._began)
        if not self._is_on or not is_time or is_too_much:
            return []
        self._looked = started
        try:
            done = self._care(started)
        except (LakeError, ConflictError, UnknownOutcomeError, OSError) as error:
            _LOG.warning("care for %s: %s", self._table.settings.table, error)
            done = []
        self._spent_seconds += self._now() - started
        return done

    def _care(self, now: float) -> list[str]:
        table, done = self._table, []
        is_keyed = table.settings.mode == "upsert"
        if not is_keyed and max(count_files(table)) > LAKE_CARE_FILES_MAX:
            plan = plan_compaction(table)[:LAKE_COMMIT_GROUPS]
            if compact(table, plan, self._runner):
                done.append("compact")
        if count_manifests(table) > LAKE_CARE_FILES_MAX and rewrite_manifests(table):
            done.append("manifests")
        versions = plan_expiry(table, keep=LAKE_KEEP_VERSIONS, older_than_seconds=LAKE_KEEP_SECONDS)
        if expire(table, versions):
            done.append("expire")
        if now - self._cleaned >= LAKE_ORPHAN_AGE_SECONDS:
            self._cleaned = now
            orphans = plan_orphans(table, runner=self._runner)
            if remove_orphans(table, orphans, self._runner):
                done.append("orphans")
        return done

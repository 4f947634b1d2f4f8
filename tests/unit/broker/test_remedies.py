from __future__ import annotations

import errno
import os

import pytest

from kaa.broker.remedies import refusal_remedy, remedy
from kaa.log.errors import CorruptFileError, StorageError
from kaa.wire.errors import Errors


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (errno.ENOSPC, "make room on its disk (see df -h and df -i), then start again"),
        (errno.EACCES, "let the user of this process read and write there, then start again"),
        (errno.EROFS, "mount its disk for writing, then start again"),
        (errno.EMFILE, "allow more open files (ulimit -n), then start again"),
        (errno.EIO, "look at its disk and the system's log, then start again"),
    ],
)
def test_errors_of_the_system(number: int, step: str) -> None:
    error = OSError(number, os.strerror(number), "/data/f")
    assert remedy(error) == step
    lost = StorageError("log directory /data is offline")
    lost.__cause__ = error
    assert remedy(lost) == step


def test_errors_without_a_cause() -> None:
    assert remedy(None) == remedy(StorageError("lost")) == remedy(OSError("a text"))


def test_damaged_files_each_have_their_own_step() -> None:
    steps = {
        remedy(CorruptFileError(f"/data/{name}", "is empty"))
        for name in ("quorum-state", "bootstrap.checkpoint", "00-00.checkpoint")
    }
    assert len(steps) == 3
    assert all("restore it from a backup" in step for step in steps)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (Errors.INCONSISTENT_CLUSTER_ID, "controller.quorum.bootstrap.servers"),
        (Errors.UNSUPPORTED_VERSION, "kaa cluster features"),
        (Errors.CLUSTER_AUTHORIZATION_FAILED, "super.users"),
        (Errors.REQUEST_TIMED_OUT, "node.id"),
        (Errors.INVALID_REGISTRATION, "the log of the active controller"),
    ],
)
def test_refusals_of_the_controller(error: Errors, word: str) -> None:
    assert word in refusal_remedy(error)

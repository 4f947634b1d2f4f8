"""What an operator does about an error that keeps a node from starting or going on."""

from __future__ import annotations

import errno
from pathlib import PurePath
from typing import Final

from kaa.log.errors import CorruptFileError
from kaa.log.quorum_state import QUORUM_STATE_FILE
from kaa.quorum.snapshots import BOOTSTRAP_FILE
from kaa.wire.errors import Errors

_START_AGAIN: Final = "then start again"

_BY_NUMBER: Final = {
    number: text
    for numbers, text in (
        # A disk may have bytes left and no inodes.
        ((errno.ENOSPC, errno.EDQUOT), "make room on its disk (see df -h and df -i)"),
        ((errno.EACCES, errno.EPERM), "let the user of this process read and write there"),
        ((errno.EROFS,), "mount its disk for writing"),
        ((errno.EMFILE, errno.ENFILE), "allow more open files (ulimit -n)"),
        ((errno.EISDIR,), "move the directory that is in the place of the file away"),
        (
            (errno.ENOTDIR, errno.EEXIST),
            "move the file that is in the place of a directory away, or mount its disk",
        ),
        ((errno.ENOENT, errno.ESTALE), "mount its disk, or restore it from a backup"),
        ((errno.ELOOP,), "put the file itself in the place of the link"),
    )
    for number in numbers
}
_ELSE: Final = "look at its disk and the system's log"

# Other controllers have the same metadata, but a vote that was given is in this directory alone.
_FROM_OTHERS: Final = (
    "if other controllers have the metadata, take this one out of the quorum (kaa cluster quorum "
    "remove), format an empty directory for it, and add it again (kaa cluster quorum add)"
)
_BY_FILE: Final = {
    QUORUM_STATE_FILE: (
        "restore it from a backup, or, if this node is the only controller, move it away: it "
        f"will be written again; {_FROM_OTHERS}"
    ),
    BOOTSTRAP_FILE: (
        "restore it from a backup, or, if this node has run before, move it away: it is for the "
        "first start"
    ),
}
_BY_REFUSAL: Final = {
    Errors.INCONSISTENT_CLUSTER_ID: (
        "set controller.quorum.bootstrap.servers to the controllers of the cluster that "
        "meta.properties names, or format an empty directory for this one"
    ),
    Errors.UNSUPPORTED_VERSION: (
        "run a version of Kaa that has the features of the cluster (kaa cluster features)"
    ),
    Errors.CLUSTER_AUTHORIZATION_FAILED: (
        "allow the principal of this broker ClusterAction, or name it in super.users"
    ),
    Errors.REQUEST_TIMED_OUT: (
        "see that a majority of the controllers can be reached, and that no other broker has this "
        f"node.id, {_START_AGAIN}"
    ),
}


def remedy(error: BaseException | None) -> str:
    """For an error of the system, the cause of another, or a damaged file."""
    while error is not None and not isinstance(error, (OSError, CorruptFileError)):
        error = error.__cause__
    if isinstance(error, CorruptFileError):
        return _BY_FILE.get(PurePath(error.path).name, f"restore it from a backup; {_FROM_OTHERS}")
    number = None if error is None else error.errno
    return f"{_BY_NUMBER.get(number or 0, _ELSE)}, {_START_AGAIN}"


def refusal_remedy(error: Errors) -> str:
    """For the answer of the controller to a registration."""
    return _BY_REFUSAL.get(error, "the log of the active controller says why")

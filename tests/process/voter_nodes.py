"""Controllers as processes that can be told to die at a system call, cheap to start.

Each is `kaa broker start` with the role of a controller alone, forked from one process that has
loaded everything (`multiprocessing`'s fork server), since a start spends most of its time there. It
ends with the process that started it. The order to die lies in a file (`kill_hook`), so that it can
be given while the node runs, or before it starts.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import threading
from multiprocessing import connection
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from kaa.cli import main
from kaa.cli.broker import load_config
from kaa.controller.formatting import FormatRequest, plan_format
from kaa.log.files import RealFiles
from kaa.log.properties import read_meta_properties
from kaa.model.nodes import Endpoint
from kaa.wire.primitives import random_uuid
from tests.process.kill_hook import install_on_order
from tests.support.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

    from kaa.quorum.voters import VoterSet
    from kaa.wire.primitives import Uuid

LISTENER: Final = "CONTROLLER"
# No records of their own accord, so that a call of a number is about the same in every run.
SETTINGS: Final = (
    "process.roles=controller",
    f"controller.listener.names={LISTENER}",
    "controller.quorum.election.timeout.ms=500",
    "controller.quorum.fetch.timeout.ms=1000",
    "metadata.log.max.record.bytes.between.snapshots=2000",
    "metadata.max.idle.interval.ms=0",
)
AUTO_JOIN: Final = "controller.quorum.auto.join.enable=true"
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["kaa.broker.node", "kaa.broker.assembly", __name__])


def new_id() -> Uuid:
    return random_uuid(SystemRandom().randbytes)


class Voter:
    """One controller over its lives."""

    def __init__(self, node_id: int, folder: Path, port: int, servers: str) -> None:
        self.id = node_id
        self.port = port
        self.data_dir = folder / f"node-{node_id}"
        self.was_killed = False
        self.process: ForkServerProcess | None = None
        self._order_file = folder / f"order-{node_id}"
        self._output_file = folder / f"output-{node_id}"
        self._overrides = (
            f"node.id={node_id}",
            f"listeners={LISTENER}://{self.address}",
            f"controller.quorum.bootstrap.servers={servers}",
            *SETTINGS,
        )

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(LISTENER, LOOPBACK, self.port)

    @property
    def output(self) -> str:
        """What it printed in all of its lives."""
        return self._output_file.read_text()

    @property
    def directory_id(self) -> Uuid:
        found = read_meta_properties(RealFiles(), str(self.data_dir))
        assert found is not None
        assert found.directory_id is not None
        return found.directory_id

    def format(self, cluster_id: str, voters: VoterSet | None) -> None:
        """An empty disk: of one of the first voters, or of one who has yet to join them."""
        shutil.rmtree(self.data_dir, ignore_errors=True)
        config = load_config(None, self._overrides, self.data_dir).config
        request = FormatRequest(
            cluster_id=cluster_id,
            node_id=self.id,
            directories=config.log_dirs,
            metadata_directory=config.metadata_log_dir,
            is_quorum_dynamic=True,
            voters=voters,
        )
        files = RealFiles()
        for _ in plan_format(files, request, new_id).run(files, 0, "for a test"):
            pass

    # --- life

    def launch(self, *more_overrides: str) -> None:
        assert self.process is None, "it runs already"
        words = [
            word
            for override in (*self._overrides, *more_overrides)
            for word in ("--override", override)
        ]
        arguments = ["broker", "start", "--data-dir", str(self.data_dir), *words]
        files = (str(self._order_file), str(self._output_file))
        self.process = _context.Process(target=_serve, args=(arguments, *files), daemon=True)
        self.process.start()

    def kill(self) -> None:
        """Ends it at once, if it runs."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.join()
            process.close()

    def exit_code(self) -> int | None:
        """Of a process that has ended by itself."""
        return None if self.process is None else self.process.exitcode

    # --- the order to die

    def order(self, kind: str, number: int) -> None:
        """Has it die at a call, counted from now on or from its next start on."""
        whole = self._order_file.with_suffix(".part")
        whole.write_text(f"{kind}\n{number}")
        whole.rename(self._order_file)

    def countermand(self) -> None:
        self._order_file.unlink(missing_ok=True)


def _serve(arguments: Sequence[str], order_file: str, output_file: str) -> None:
    output = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    install_on_order(order_file)
    sys.argv = ["kaa", *arguments]
    main()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)

from __future__ import annotations

import threading

from kaa.broker.executors import thread_pool


def test_work_runs_on_threads_that_carry_the_name() -> None:
    with thread_pool("flush", 1) as executor:
        name = executor.submit(lambda: threading.current_thread().name).result()
    assert name.startswith("kaa-flush")

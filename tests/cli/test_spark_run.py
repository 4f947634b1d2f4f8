"""Work on Spark and signals, in a process of its own; what stands for Spark can only be stopped."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal, sys, threading
import click
from kaa.cli.spark_run import run_on_spark

class Session:
    def stop(self):
        print("stopped", flush=True)

def start():
    if sys.argv[1] == "early":
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
    return Session()

def work(spark, stop):
    if sys.argv[1] in ("late", "twice"):
        os.kill(os.getpid(), signal.SIGTERM)
        stop.wait()
        print("ended", flush=True)
    if sys.argv[1] == "twice":
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
    elif sys.argv[1] == "fails":
        raise ValueError("as told")

with click.Context(click.Command("x")):
    run_on_spark(start, work)
"""


def run(how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


def test_a_signal_while_spark_starts_leaves_at_once() -> None:
    answer = run("early")
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "")


def test_a_signal_brings_the_work_to_an_end() -> None:
    answer = run("late")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "ended\nstopped\n", "")


def test_a_second_signal_leaves_at_once() -> None:
    answer = run("twice")
    assert (answer.returncode, answer.stdout, answer.stderr) == (143, "ended\n", "")


def test_a_failure_is_raised_where_the_work_was_given() -> None:
    answer = run("fails")
    assert answer.stdout == "stopped\n"
    assert answer.stderr.endswith("ValueError: as told\n")
    assert answer.returncode == 1

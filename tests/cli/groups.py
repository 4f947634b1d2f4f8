"""A group to try commands on."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from kaa.cli.root import root


def kaa(bootstrap: str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap], input=stdin)


@pytest.fixture
def group(bootstrap: str, topic_name: str) -> str:
    """A group that has read 2 of 5 records of partition 0, and nothing of partition 1."""
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "2").exit_code == 0
    assert kaa(bootstrap, "produce", topic_name, "-p", "0", *"abcde").exit_code == 0
    name = f"group-{topic_name}"
    sought = kaa(bootstrap, "group", "seek", name, "--to", "2", "-t", topic_name, "--execute")
    assert sought.exit_code == 0, sought.output
    return name

"""The page on JSON says which keys the commands print; here they print them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from confluent_kafka import Producer

from kaa.cli.root import root
from tests.support.broker_process import BrokerProcess

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"

CALLS = """
topic create T -p 1
produce T a b
consume T -e
topic list
offsets T@-1h
topic describe T
topic alter T -c retention.ms=-1
topic add-partitions T --total 2
topic trim T --before 1
config describe topic T
config set topic T max.message.bytes=100000
config unset topic T max.message.bytes
config get topic T cleanup.policy
group seek G -t T --to start --execute
group list
group describe G
group lag G
group delete-offsets G -t T:1 --yes
group delete G --yes
share reset S -t T --to start --execute
share list
share describe S
share offsets S
share delete S --yes
txn list
txn describe X
txn abort X --yes
cluster reassign T-0=1
cluster elect T-0
cluster features
cluster dirs
cluster brokers
cluster controllers
cluster api-versions
cluster info
cluster health
cluster quorum
perf produce T -n 10
perf consume T
perf e2e T -n 2
doctor
version
topic apply F
topic delete T --yes
"""


def contract() -> dict[str, tuple[bool, list[str]]]:
    """By command: whether it prints a list, and the keys."""
    lists, singles = PAGE.read_text("utf-8").split("## Single objects")
    found = {}
    for text, is_list in ((lists, True), (singles, False)):
        for name, keys in re.findall(r"^\| `kaa ([^`]+)` \| (.*) \|$", text, re.MULTILINE):
            found[name] = (is_list, re.findall(r"`(\w+)`", keys))
    return found


def test_commands_print_the_keys_of_the_page(
    kaa_node: BrokerProcess, topic_name: str, tmp_path: Path
) -> None:
    told = contract()
    file = tmp_path / "topics.json"
    file.write_text(json.dumps([{"name": f"{topic_name}-more"}]))
    names = {"F": str(file), "T": topic_name, "G": f"group-{topic_name}", "X": f"txn-{topic_name}"}
    names["S"] = f"share-{topic_name}"
    producer = Producer(
        {
            "bootstrap.servers": kaa_node.bootstrap_servers,
            "transactional.id": names["X"],
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    del producer
    for line in CALLS.strip().splitlines():
        words = [
            re.sub(r"^([FTGXS])(?=$|[:@-])", lambda match: names[match[1]], word)
            for word in line.split()
        ]
        name = " ".join(word for word in line.split()[:2])
        name = name if name in told else line.split()[0]
        servers = [] if name in {"doctor", "version"} else ["-b", kaa_node.bootstrap_servers]
        answer = CliRunner().invoke(root, [*words, "-o", "json", *servers])
        assert answer.exit_code == 0, (line, answer.output)
        is_list, keys = told.pop(name)
        found: Any = json.loads(answer.stdout)
        assert isinstance(found, list) is is_list, line
        rows = found if is_list else [found]
        assert rows, line
        assert {tuple(row) for row in rows} == {tuple(keys)}, line
    assert not told

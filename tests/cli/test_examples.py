"""Every example of every help text is run, against one node that has what the examples name.

An example is a line of shell. Here calls of `kaa` run in this process, with pipes, redirections,
`&&`, `||` and `$(...)` as a shell has them; a process for each would take minutes.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import click
import pytest
from click.testing import CliRunner

from kaa.cli.client import EXIT_NOT_FOUND
from kaa.cli.root import root
from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.group.offsets import OffsetAndMetadata
from kaa.client.producer.producer import Producer
from kaa.model.topics import TopicPartition
from kaa.testing.registry import Registry
from tests.cli.test_root import ALL, examples
from tests.support.broker_process import BrokerProcess

TOPICS = {
    "orders": 4, "payments": 1, "orders-1": 1, "jobs": 1, "old": 1, "new": 1,
    "test-a": 1, "test-b": 1, "test-c": 1,
}  # fmt: skip
SERVER_PROPERTIES = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093
log.dirs=disk
"""

Found = TypeVar("Found")

RUNS_ON = "a server, which the tests of its own start and stop"
CLUSTER = "needs several brokers, as the tests of replicas have"
SPARK = "needs Spark and a job, which tests/spark runs"
REMOTE = "needs a bucket, or a topic in remote storage: tests of tiers have these"
NOT_RUN = {
    r"kaa (broker|host) start": RUNS_ON,
    r"kaa dev": RUNS_ON,
    r"kill ": RUNS_ON,
    r"kaa cluster (drain|reassign (orders|--factor)|quorum (add|remove))": CLUSTER,
    r"kaa topic create .* -r 3": CLUSTER,
    r"kaa (lake|pipeline (run|plan|status|validate))": SPARK,
    r"kaa (tier|topic tier)": REMOTE,
    r"kaa profile edit work$": "opens an editor",
    r"kaa txn abort -t": "needs a transaction that hangs, as the tests of txn make one",
    r"kaa pipeline init .* --from": SPARK,
    r"kaa debug dump-snapshot kaa-data": "is written at a roll, as the tests of dump have it",
}
"""Why examples are not run here; what they begin with, as patterns."""

ENDING = {
    "kaa tail": "--from start -n 1",
    "kaa consume orders -g": "-e",
    "kaa consume orders --from @-10m": "-n 1",
    "kaa consume jobs": "-n 1",
    "kaa group watch billing": "-n 1",
    "kaa perf consume orders": "-n 5",
    "kaa perf produce": "-n 20",
    "kaa perf e2e": "-n 5",
}
"""Words that let what runs for ever, or for long, come to an end."""

FROM_THE_START = "kaa config set group workers share.auto.offset.reset=earliest"
BEFORE = {
    "kaa topic create": ["kaa topic delete orders payments --yes"],
    "kaa profile (clear|delete|edit|print|prompt|rename|use)": [
        "kaa profile create work -b broker:9092 -X ssl.truststore.location=x --use"
    ],
    "kaa topic list --profile work": ["kaa profile create work -b broker:9092"],
    "kaa storage info": ["kaa storage format -t 5L6g3nShT-eMCtK--X86sw -c server.properties -s"],
    "kaa group seek other": ["kaa group seek billing --to end -o csv > offsets.csv"],
    "kaa consume jobs": [FROM_THE_START],
    "kaa share (delete|describe|offsets|reset)": [
        FROM_THE_START,
        "kaa produce jobs more",
        "kaa consume jobs --share workers -n 1",
    ],
    "kaa topic trim orders --before 1000 -p 0": ["kaa produce orders -p 0 < many.txt"],
    "kaa group delete-offsets": ["kaa group seek billing --to start -t orders:0,1 --execute"],
}
CHANGES = r"kaa (config set|config unset|topic (add-partitions|alter|apply|move|trim)) .*orders"
"""What leaves a topic in another state than the rest expects it; it is made again."""
ALSO = {
    "kaa topic move orders --cancel": EXIT_NOT_FOUND,
}
"""What may say that nothing is there to be changed."""


class Place(NamedTuple):
    """Where examples run."""

    node: BrokerProcess
    registry: Registry


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("examples")
    disks = f"log.dirs={folder / 'data'},{folder / 'disk2'}"
    with BrokerProcess(folder, disks) as node, Registry() as registry:
        yield Place(node, registry)


async def stock(servers: str) -> None:
    """What the examples name is there, again if one of them has taken it away."""
    settings = {"bootstrap.servers": servers}
    async with Admin(settings) as admin:
        there = {topic.name for topic in await admin.list_topics()}
        absent = TOPICS.keys() - there
        await admin.create_topics([NewTopic(name, TOPICS[name]) for name in absent])
        offsets = {TopicPartition("orders", number): OffsetAndMetadata(0) for number in (0, 1)}
        for group in ("billing", "shipping"):
            await admin.alter_group_offsets(group, offsets)
    if not absent:
        return
    async with Producer({**settings, "transactional.id": "payments-1"}) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for name in absent:
                for partition in range(TOPICS[name]):
                    for number in range(5):
                        await producer.send(
                            name, f"error {number} of customer-7", partition=partition
                        )


@pytest.fixture
def folder(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files that examples name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KAA_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("KAA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("KAA_BOOTSTRAP_SERVERS", place.node.bootstrap_servers)
    Path("lines.txt").write_text("k:v\nplain\n")
    Path("many.txt").write_text("line\n" * 1000)
    Path("server.properties").write_text(SERVER_PROPERTIES)
    Path("client.properties").write_text("bootstrap.servers=broker.example:9092\n")
    Path("broker.log").write_text("[1] started\n")
    Path("topics.yaml").write_text("topics:\n- name: orders\n  partitions: 4\n")
    Path("request.bin").write_bytes(
        bytes.fromhex("0012000300000001000772646b61666b6100037264023200")
    )
    Path("answer.bin").write_bytes(bytes.fromhex("000000070000010000000000000000"))
    for shell in (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"):
        Path(shell).mkdir(parents=True)
    return tmp_path


def located(line: str, place: Place) -> str:
    """An example with the addresses and folders of this node."""
    data = place.node.data_dir
    snapshots = sorted(data.glob("__cluster_metadata-0/*.checkpoint"))
    for name, found in (
        ("broker:9092", place.node.bootstrap_servers),
        ("localhost:9092", place.node.bootstrap_servers),
        ("http://localhost:8081", place.registry.url),
        ("/disk2/kafka", str(data.parent / "disk2")),
        ("/etc/kafka/", ""),
        ("~/", f"{Path.home()}/"),
        ("00000000000000000000-0000000000.checkpoint", str(snapshots[-1]) if snapshots else ""),
    ):
        line = line.replace(name, found)

    def disk(match: re.Match[str]) -> str:
        return str(next(data.parent.glob(f"*/{match[1]}"), match[0]))

    return re.sub(r"kaa-data/([^ /]*)", disk, line)


def run(line: str) -> int:
    """Runs a line of shell, as far as examples use it; gives the last exit code."""
    line = re.sub(r"\$\((kaa [^)]*)\)", lambda match: output_of(match[1]), line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&<>")
    lexer.whitespace_split = True
    words: list[str] = []
    stdin = ""
    code = 0
    pending = [*lexer, "|"]
    while pending:
        word = pending.pop(0)
        if word == "<":
            stdin = Path(pending.pop(0)).read_text()
            continue
        if not word or not set(word) <= set("|&>"):
            words.append(word)
            continue
        target = Path(pending.pop(0)) if word == ">" else None
        if words[:1] == ["kaa"]:
            answer = CliRunner().invoke(root, words[1:], input=stdin, prog_name="kaa")
            assert answer.exception is None or isinstance(answer.exception, SystemExit), words
            code, stdin = answer.exit_code, answer.stdout
            click.echo(f"{shlex.join(words)}\n{code}\n{answer.output}")
            if target is not None:
                target.write_text(answer.stdout)
        words = []
    return code


def output_of(line: str) -> str:
    return CliRunner().invoke(root, shlex.split(line)[1:]).stdout.strip()


def matching(patterns: Mapping[str, Found], line: str) -> Found | None:
    return next((found for one, found in patterns.items() if re.match(one, line)), None)


LINES = sorted({line for command in ALL.values() for line in examples(command)})
RUN = [line for line in LINES if matching(NOT_RUN, line) is None]


@pytest.mark.parametrize("line", RUN)
def test_an_example_runs(line: str, place: Place, folder: Path) -> None:
    asyncio.run(stock(place.node.bootstrap_servers))
    for pattern, lines in BEFORE.items():
        if re.match(pattern, line):
            for one in lines:
                run(located(one, place))
    more = matching(ENDING, line)
    line = re.sub(r"\s+#.*", "", line)
    code = run(located(line if more is None else f"{line} {more}", place))
    assert code in {0, matching(ALSO, line)}
    if re.match(CHANGES, line):
        run("kaa topic delete orders payments --yes")


def test_every_reason_is_needed() -> None:
    for pattern in (*NOT_RUN, *ENDING, *BEFORE):
        assert any(re.match(pattern, line) for line in LINES), pattern

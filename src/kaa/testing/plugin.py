"""The pytest plugin: the fixture `kafka` and its relatives, options and the marker.

Installing Kaa registers it, for every test run of that environment. So it imports nothing but
pytest until a fixture is asked for, and a fixture of the same name in a test file or a conftest
wins, as pytest has it.

| fixture | what it gives |
|---|---|
| `kafka` | one broker for the whole run; names and deletion keep tests apart |
| `kafka_fresh` | a broker of the test's own, for fixed names, killing and restarting |
| `kaa_broker` | `kafka` under another name, where that one is taken |
| `kafka_bootstrap_servers` | the address of `kafka` |
| `kaa_session_broker` | the broker of `kafka`, for fixtures that live longer than a test |
| `spark` | a Spark session in which the format `kaa` works, for the whole run |
| `kaa_spark` | `spark` under another name, where that one is taken |

`@pytest.mark.kafka` gives a test a broker of its own with other settings:
`overrides={...}`, `process=True`, `api_versions={...}`, or just `fresh=True`. With
`topics={"orders": 3}` or `topics=["orders"]` topics are there before the test begins. Other
arguments, and names in `overrides` that no broker knows, are refused.
"""

from __future__ import annotations

import gc
import itertools
import re
import sys
from contextlib import contextmanager
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

import pytest

from kaa.limits import TESTING_NAME_CHARACTERS_MAX

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from pyspark.sql import SparkSession

    from kaa.testing.broker import Broker
    from kaa.testing.cluster import Cluster

_MARKER = (
    "kafka(fresh=False, overrides=None, process=None, api_versions=None, topics=None): the broker "
    "that the fixtures kafka and kaa_broker give this test, one of its own if any of the first "
    "four is given; topics by name and number of partitions are made before it begins. "
    "kafka_cluster takes brokers=3, overrides, process. The marker of a test goes before that of "
    "its class or module, argument by argument; overrides are put together"
)
# What fixtures take from the marker, and of which kinds it has to be.
_BROKER_ARGUMENTS: dict[str, tuple[type, ...]] = {
    "fresh": (bool,),
    "overrides": (dict,),
    "process": (bool,),
    "api_versions": (dict,),
    "topics": (dict, list, tuple, set, frozenset),
}
_CLUSTER_ARGUMENTS: dict[str, tuple[type, ...]] = {
    "brokers": (int,),
    "overrides": (dict,),
    "process": (bool,),
}
_numbers = itertools.count(1)


class _PlainImports:
    """Imports Kaa as it is, past pytest's rewriting of assertions.

    pytest rewrites every module of a distribution that brings a plugin, when it is imported. For
    the few hundred modules of a broker that takes longer than the broker itself, at the first run
    and wherever compiled files are not kept. The helpers of tests raise their own texts instead.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("kaa.") else None


# Finders are asked in turn, and pytest has put its own in front.
sys.meta_path.insert(0, _PlainImports)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "a Kafka broker for tests (kaa)")
    group.addoption(
        "--kafka-process",
        action="store_true",
        help="run the broker of the kafka fixtures as a child process",
    )
    group.addoption(
        "--kafka-bootstrap-servers",
        metavar="HOST:PORT",
        help="let the kafka fixtures use a cluster that runs already",
    )
    parser.addini("kafka_process", "as --kafka-process", type="bool", default=False)
    parser.addini("kafka_bootstrap_servers", "as --kafka-bootstrap-servers")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if servers := _servers(config):
        _check_addresses(servers)


def _check_addresses(servers: str) -> None:
    """Before anything runs: a slip would fail every test by itself."""
    from kaa.config.addresses import parse_host_port
    from kaa.config.values import ConfigError

    for entry in servers.split(","):
        try:
            parse_host_port("--kafka-bootstrap-servers", entry, entry.strip(), "host:port")
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def kaa_session_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """The broker of `kafka`, one for the whole run (one per worker with xdist)."""
    with _new_broker(pytestconfig) as broker:
        yield broker


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A Kafka broker: bootstrap_servers, topic(), on(), wait_for() and more.

    The broker lives for the whole run. Topics that a test makes begin with a prefix of its own, and
    all that it made or changed is gone after it.
    """
    yield from _given(request)


@pytest.fixture
def kaa_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The fixture `kafka`, under a name that no fixture of yours has."""
    yield from _given(request)


@pytest.fixture
def kafka_fresh(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A Kafka broker of this test's own: topics have the names they are given."""
    yield from _fresh(request)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three nodes of this test's own: bootstrap_servers, controller, kill(), restart(), pause(),
    cut(), heal(). The marker may ask for more of them: `@pytest.mark.kafka(brokers=5)`.
    """
    from kaa.testing.cluster import Cluster

    settings = _settings(request, _CLUSTER_ARGUMENTS)
    count = settings.pop("brokers", None)
    with Cluster(**settings) if count is None else Cluster(count, **settings) as cluster:
        yield cluster


@pytest.fixture
def kafka_bootstrap_servers(kafka: Broker) -> str:
    """The address of `kafka`, HOST:PORT."""
    return kafka.bootstrap_servers


@pytest.fixture(scope="session")
def kaa_spark() -> Iterator[SparkSession]:
    """A small local Spark session that reads and writes `kafka` through the format kaa."""
    pytest.importorskip(
        "pyspark", reason="the Spark fixtures need pyspark (pip install kaa[spark])"
    )
    from kaa.testing.spark import session

    with session() as running:
        yield running


@pytest.fixture(scope="session")
def spark(kaa_spark: SparkSession) -> SparkSession:
    """A small local Spark session; a fixture `spark` of your own wins."""
    return kaa_spark


def _given(request: pytest.FixtureRequest) -> Iterator[Broker]:
    settings = _settings(request, _BROKER_ARGUMENTS)
    if any(value for name, value in settings.items() if name != "topics"):
        yield from _fresh(request)
        return
    broker = request.getfixturevalue("kaa_session_broker")
    with broker.isolated(_prefix(request.node.name)):
        _make_topics(broker, settings)
        yield broker


def _fresh(request: pytest.FixtureRequest) -> Iterator[Broker]:
    settings = _settings(request, _BROKER_ARGUMENTS)
    options = {name: settings[name] for name in ("overrides", "process") if name in settings}
    with _new_broker(request.config, **options) as broker:
        if settings.get("api_versions"):
            broker.cap_versions(settings["api_versions"])
        if _servers(request.config):
            # Nobody has a foreign cluster for himself.
            with broker.isolated(_prefix(request.node.name)):
                _make_topics(broker, settings)
                yield broker
        else:
            _make_topics(broker, settings)
            yield broker


def _make_topics(broker: Broker, settings: dict[str, Any]) -> None:
    topics = settings.get("topics") or {}
    named = topics.items() if isinstance(topics, dict) else [(name, 1) for name in topics]
    for name, partitions in named:
        broker.topic(name, partitions)


def _servers(config: pytest.Config) -> str | None:
    """A cluster that runs already, by option or by the file of settings."""
    option: str | None = config.getoption("--kafka-bootstrap-servers")
    return option or str(config.getini("kafka_bootstrap_servers") or "") or None


def _settings(request: pytest.FixtureRequest, known: dict[str, tuple[type, ...]]) -> dict[str, Any]:
    """What the markers of a test, its class and its module ask for, the nearest last."""
    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kafka"))):
        if marker.args:
            _refuse(f"takes named arguments alone: {', '.join(known)}")
        for name, value in marker.kwargs.items():
            _check(name, value, known, request.fixturename)
        given = {name: value for name, value in marker.kwargs.items() if value is not None}
        overrides = {**settings.get("overrides", {}), **given.get("overrides", {})}
        settings |= given
        if overrides:
            settings["overrides"] = overrides
    return settings


def _check(
    name: str, value: object, known: dict[str, tuple[type, ...]], fixture: str | None
) -> None:
    if name not in known:
        _refuse(f"has no argument {name}; for the fixture {fixture} it has {', '.join(known)}")
    kinds = known[name]
    is_meant = value is None or isinstance(value, kinds)
    if name == "topics" and isinstance(value, dict):
        is_meant = all(type(count) is int for count in value.values())
    if not is_meant or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds[:2])
        _refuse(f"wants {wanted} for {name}, not {value!r}")
    if name == "brokers" and isinstance(value, int) and value < 1:
        _refuse(f"wants at least 1 for brokers, not {value}")


def _refuse(what: str) -> None:
    pytest.fail(f"@pytest.mark.kafka {what}", pytrace=False)


def _new_broker(
    config: pytest.Config,
    *,
    overrides: dict[str, object] | None = None,
    process: bool | None = None,
) -> Broker:
    with _no_collection():
        from kaa.testing.broker import Broker

    servers = _servers(config)
    if servers and overrides:
        pytest.skip("this test needs settings that a cluster which runs already may not have")
    if process is None:
        process = config.getoption("--kafka-process") or config.getini("kafka_process")
    return Broker(overrides=overrides, process=bool(process), bootstrap_servers=servers)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Has the collector rest: it would look for nothing through what an import makes, all of which
    stays, and through what the tests and their libraries have.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            # Makes everything old at once; otherwise the next object would make up for the rest.
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()


def _prefix(test: str) -> str:
    """A prefix that no other test has, and that tells its test."""
    import os

    plain = re.sub(r"[^a-zA-Z0-9]+", "-", test)[:TESTING_NAME_CHARACTERS_MAX].strip("-")
    return f"{plain}-{os.getpid()}-{next(_numbers)}-"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that failed with a broker at hand shows what that broker saw."""
    report = yield
    if report.when == "call" and report.failed:
        given = getattr(item, "funcargs", {})
        for name in ("kafka", "kaa_broker", "kafka_fresh"):
            # Whose `kafka` it is shows in its home; nothing is imported to find out.
            if type(given.get(name)).__module__ == "kaa.testing.broker":
                from kaa.testing.report import sections

                report.sections += sections(given[name])
                break
    return report

"""The plugin in test runs of its own, as a user has them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.pace import slowness

pytest_plugins = ["pytester"]

IMPORT_MILLISECONDS_MAX = 5.0
FIRST_START_CPU_SECONDS_MAX = 0.35


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other plugins cost a second per run and more with each worker."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    options = ["-p", "kaa.testing.plugin", "-p", "no:cacheprovider", "--strict-markers"]
    return pytester.runpytest_subprocess(*options, "-W", "error", *arguments)


ISOLATED = """
import pytest

def test_first(kafka):
    kafka.topic("orders").seed(["a"])
    assert kafka.topic("other").name.startswith("test-first-")

def test_second(kafka, kafka_bootstrap_servers):
    assert kafka.topic_names() == []
    assert kafka.bootstrap_servers == kafka_bootstrap_servers
    assert kafka.topic("orders").records() == []

@pytest.mark.parametrize("text", ["a/b c", "x" * 300])
def test_third(kaa_broker, text):
    kaa_broker.topic("orders").seed([text])

def test_fresh(kafka_fresh, kafka):
    assert kafka_fresh.bootstrap_servers != kafka.bootstrap_servers
    assert kafka_fresh.topic("orders").name == "orders"
"""


def test_tests_are_kept_apart(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ISOLATED)
    run(pytester).assert_outcomes(passed=5)


def test_every_worker_has_a_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ISOLATED)
    run(pytester, "-p", "xdist", "-n", "2").assert_outcomes(passed=5)


def test_the_same_tests_with_a_child_process_and_with_a_foreign_cluster(
    pytester: pytest.Pytester,
) -> None:
    from kaa.testing import Broker

    pytester.makepyfile(
        """
        def test_produce(kafka):
            topic = kafka.topic("orders")
            topic.seed(["a"])
            topic.expect(["a"])
        """
    )
    run(pytester, "--kafka-process").assert_outcomes(passed=1)
    with Broker(process=True) as broker:
        lasting = broker.topic("theirs")
        result = run(pytester, "--kafka-bootstrap-servers", broker.bootstrap_servers)
        result.assert_outcomes(passed=1)
        assert broker.topic_names() == [lasting.name]


def test_an_address_that_is_none_is_told_before_anything_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_produce(kafka): pass")
    for wrong in ("nonsense:", "localhost", "localhost:9092,"):
        result = run(pytester, "--kafka-bootstrap-servers", wrong)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: Cannot read host and port from*form host:port*"])


def test_the_file_of_settings_says_the_same_as_the_options(pytester: pytest.Pytester) -> None:
    from kaa.testing import Broker

    pytester.makepyfile(
        """
        import os

        def test_where_it_runs(kafka):
            kafka.topic("orders").expect([])
            assert kafka.pid != os.getpid()
        """
    )
    pytester.makeini("[pytest]\nkafka_process = true")
    run(pytester).assert_outcomes(passed=1)
    with Broker(process=True) as broker:
        pytester.makeini(f"[pytest]\nkafka_bootstrap_servers = {broker.bootstrap_servers}")
        run(pytester).assert_outcomes(passed=1)


def test_the_marker_gives_a_broker_of_another_kind(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka(overrides={"num.partitions": 4})
        def test_settings(kafka):
            assert kafka.prefix == ""
            assert len(kafka.topic("orders", partitions=-1).offsets()) == 4

        @pytest.mark.kafka(fresh=True)
        def test_names(kafka):
            assert kafka.topic("orders").name == "orders"

        @pytest.mark.kafka(api_versions={"Metadata": 5})
        def test_versions(kafka):
            kafka.topic("orders").expect([])

        @pytest.mark.kafka(fresh=False)
        def test_defaults(kafka):
            assert kafka.prefix

        @pytest.mark.kafka(topics={"orders": 3, "bills": 1})
        def test_topics(kafka):
            assert len(kafka.existing_topic(kafka.name("orders")).offsets()) == 3
            assert len(kafka.topic_names()) == 2
            assert kafka.prefix

        @pytest.mark.kafka(fresh=True, topics={"orders": 2})
        def test_topics_of_fixed_names(kafka):
            assert kafka.topic_names() == ["orders"]
        """
    )
    run(pytester).assert_outcomes(passed=6)
    run(pytester, "--markers").stdout.fnmatch_lines(["@pytest.mark.kafka(fresh=False, *"])


def test_a_fixture_of_the_users_own_wins(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def kafka():
            return "mine"

        @pytest.fixture
        def spark():
            return "mine too"
        """
    )
    pytester.makepyfile(
        """
        import sys

        def test_mine(kafka, spark):
            assert (kafka, spark) == ("mine", "mine too")
            assert not {"kaa.testing.broker", "kaa.testing.spark", "pyspark"} & set(sys.modules)

        def test_fails(kafka):
            assert kafka == "yours"

        def test_alias(kaa_broker, kafka):
            assert kafka == "mine"
            kaa_broker.topic("orders").expect([])
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.no_fnmatch_line("*kafka: last requests*")


def test_a_failed_test_shows_what_its_broker_saw(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from confluent_kafka import Producer

        def test_fails(kafka):
            topic = kafka.topic("orders")
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": "shop"})
            producer.produce(topic.name, "found", key="k")
            assert producer.flush(20) == 0
            topic.expect([("k", "wanted")], timeout=0.05)
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *AssertionError: topic test-fails-*-orders: 1 record expected, 1 found",
            "E *- ('k', 'wanted')",
            "E *+ ('k', 'found') *[[]partition 0, offset 0[]]",
            "*- kafka: last requests -*",
            "Produce v* from shop test-fails-*-orders[[]0[]]",
            "*- kafka: ends of topics -*",
            "test-fails-*-orders (end offsets 0: 1)",
            "*('k', 'found') *",
        ]
    )


def test_asyncio_tests_and_unittest_find_it_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import unittest

        from aiokafka import AIOKafkaProducer
        from kaa.testing import Broker

        def test_async_client(kafka):
            topic = kafka.topic("orders")

            async def produce():
                async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                    await producer.send_and_wait(topic.name, b"a")

            asyncio.run(produce())
            topic.expect(["a"])

        class TestWithUnittest(unittest.TestCase):
            def setUp(self):
                self.broker = self.enterContext(Broker())

            def test_it(self):
                self.broker.topic("orders").expect([])
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_unused_it_imports_only_pytest_and_costs_nothing() -> None:
    program = """
import sys, time
import pytest
import kaa
before = set(sys.modules)
begun = time.process_time()
import kaa.testing.plugin
spent = time.process_time() - begun
loaded = {name for name in set(sys.modules) - before if not name.startswith("_")}
assert loaded <= {"kaa.lazy", "kaa.limits", "kaa.testing", "kaa.testing.plugin"}, loaded
print(spent * 1000)
"""
    spent = [
        float(
            subprocess.run(
                [sys.executable, "-c", program], capture_output=True, check=True, text=True
            ).stdout
        )
        for _ in range(5)
    ]
    assert min(spent) < IMPORT_MILLISECONDS_MAX * slowness()


def test_an_installed_package_is_found(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What an installation writes about the package is all that pytest needs."""
    pyproject = Path(__file__).parents[3].joinpath("pyproject.toml").read_text()
    points = tomllib.loads(pyproject)["project"]["entry-points"]["pytest11"]
    installed = tmp_path / "kaa_as_installed-1.dist-info"
    installed.mkdir()
    lines = [f"{name} = {module}" for name, module in points.items()]
    installed.joinpath("entry_points.txt").write_text("\n".join(["[pytest11]", *lines]))
    installed.joinpath("METADATA").write_text("Name: kaa_as_installed\nVersion: 1\n")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    pytester.makepyfile("def test_it(kafka): kafka.topic('orders').expect([])")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_first_broker_of_a_process_is_there_soon(tmp_path: Path) -> None:
    """With imports, as a user has it: compiled files are kept from one run to the next."""
    program = """
import sys, time
import pytest
begun = time.process_time()
from kaa.testing import Broker
with Broker():
    print(time.process_time() - begun)
unneeded = ("kaa.coordinators.group.machine", "kaa.handlers.k", "kaa.testing.share_group")
loaded = [name for name in sys.modules if name.startswith(unneeded)]
assert not loaded, loaded
"""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", program]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    spent = [float(subprocess.check_output(command, env=environment, text=True)) for _ in range(3)]
    assert min(spent) < FIRST_START_CPU_SECONDS_MAX * slowness()


def test_the_marker_refuses_what_it_does_not_know(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka(brokers=3)
        def test_argument(kafka):
            pass

        @pytest.mark.kafka(3)
        def test_position(kafka):
            pass

        @pytest.mark.kafka(overrides={"num.partitons": 3})
        def test_override(kafka):
            pass

        @pytest.mark.kafka(topics=["orders"])
        def test_list_of_topics(kafka):
            assert len(kafka.topic_names()) == 1
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1, errors=3)
    text = result.stdout.str()
    wanted = "@pytest.mark.kafka has no argument brokers; for the fixture kafka it has fresh"
    assert wanted in text
    assert "@pytest.mark.kafka takes named arguments alone" in text
    assert "No broker has a setting num.partitons. Did you mean num.partitions?" in text


def test_the_marker_refuses_values_of_the_wrong_kind(pytester: pytest.Pytester) -> None:
    wrong = {
        "topics='ab'": "wants dict or list for topics, not 'ab'",
        "topics={'a': '3'}": "wants dict or list for topics, not {'a': '3'}",
        "fresh='no'": "wants bool for fresh, not 'no'",
        "overrides=['a']": "wants dict for overrides, not ['a']",
    }
    tests = [
        f"@pytest.mark.kafka({given})\ndef test_{number}(kafka): pass\n"
        for number, given in enumerate(wrong)
    ]
    tests += [
        "@pytest.mark.kafka(brokers=True)\ndef test_count(kafka_cluster): pass\n",
        "@pytest.mark.kafka(brokers=0)\ndef test_none(kafka_cluster): pass\n",
        "@pytest.mark.kafka(brokers=-2)\ndef test_less(kafka_cluster): pass\n",
        "@pytest.mark.kafka(nonsense=1)\ndef test_nonsense(kafka_cluster): pass\n",
    ]
    pytester.makepyfile("import pytest\n" + "\n".join(tests))
    result = run(pytester)
    result.assert_outcomes(errors=len(tests))
    text = result.stdout.str()
    for message in wrong.values():
        assert f"@pytest.mark.kafka {message}" in text
    assert "wants int for brokers, not True" in text
    assert "wants at least 1 for brokers, not 0" in text
    assert "wants at least 1 for brokers, not -2" in text
    assert "has no argument nonsense; for the fixture kafka_cluster it has brokers" in text


def test_markers_of_class_and_test_are_put_together(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka(overrides={"num.partitions": 7, "log.retention.hours": 5})
        class TestTopics:
            @pytest.mark.kafka(topics=["q"], overrides={"log.retention.hours": 6})
            def test_both(self, kafka):
                assert len(kafka.topic("orders", partitions=-1).offsets()) == 7
                assert kafka.existing_topic("q").offsets() == {0: 0}

        @pytest.mark.kafka(brokers=1, overrides={"num.partitions": 2})
        def test_cluster(kafka_cluster):
            from kaa.client.sync import Admin
            with Admin(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
                assert len(admin.describe_cluster().brokers) == 1
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_installed_its_assertions_are_not_rewritten(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Pytest rewrites every module of an installed distribution that brings a plugin."""
    installed = tmp_path / "kaa_as_installed-1.dist-info"
    installed.mkdir()
    installed.joinpath("entry_points.txt").write_text("[pytest11]\nkaa = kaa.testing.plugin\n")
    installed.joinpath("METADATA").write_text("Name: kaa_as_installed\nVersion: 1\n")
    installed.joinpath("RECORD").write_text("kaa/__init__.py,,\nkaa/testing/plugin.py,,\n")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    pytester.makepyfile(
        """
        import sys
        from _pytest.assertion.rewrite import AssertionRewritingHook

        def test_it(kafka):
            rewritten = [
                name
                for name, module in sys.modules.items()
                if name.startswith("kaa")
                and isinstance(getattr(module, "__loader__", None), AssertionRewritingHook)
            ]
            print(len(rewritten), "rewritten")
            assert "kaa.testing.plugin" in rewritten, "pytest knows the distribution"
            assert len(rewritten) < 6, rewritten
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)

"""What a case is, and how it is run on both nodes.

A case is a generator: it yields requests and is sent the answers, once for each node and in step,
so that a request may hold what only that node knows (the id of a topic, the epoch of a broker).
Every answer on the way is compared. A request of the API under test has the version under test, any
other the newest, unless the case says which.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from kaa.wire.registry import ApiKey, api
from kaa.wire.schema import Request
from tests.differential.normal import differences, normal
from tests.differential.peers import BROKER, CONTROLLER

if TYPE_CHECKING:
    from tests.differential.peers import Peer


class Ask(NamedTuple):
    """A request with a version, or for a listener, of its own."""

    request: Request
    version: int | None = None
    listener: str | None = None


class Compare(NamedTuple):
    """Something else than an answer that must be the same on both nodes."""

    value: Any


class World(NamedTuple):
    """What a case knows about the node that it runs on."""

    peer: Peer
    key: ApiKey
    version: int
    listener: str
    # The beginning of every name that the case makes, the same on both nodes.
    prefix: str

    def name(self, word: str = "t") -> str:
        return f"{self.prefix}.{word}"


Story = Generator[Request | Ask | Compare, Any, Any]
Tell = Callable[[World], Story]


class Case(NamedTuple):
    """A case of one API on one or more listeners, from a version to a version."""

    key: ApiKey
    name: str
    listeners: tuple[str, ...]
    low: int
    high: int
    tell: Tell


CASES: list[Case] = []


def case(
    key: ApiKey,
    name: str,
    *,
    on: tuple[str, ...] | None = None,
    low: int = 0,
    high: int = 99,
) -> Callable[[Tell], Tell]:
    """Marks the function that tells a case."""

    def mark(tell: Tell) -> Tell:
        listeners = on
        if listeners is None:
            known = {"broker": BROKER, "controller": CONTROLLER}
            listeners = tuple(known[kind] for kind in api(key).listener_types)
        CASES.append(Case(key, name, listeners, low, high, tell))
        return tell

    return mark


def versions_of(key: ApiKey) -> tuple[int, ...]:
    """The lowest, the middle and the highest version of an API."""
    low, high = api(key).served_versions()
    return tuple(sorted({low, (low + high) // 2, high}))


def compare(told: Case, version: int, listener: str, kafka: Peer, kaa: Peer) -> list[str]:
    """Tells a case to both nodes; gives every difference of their answers."""
    prefix = f"d{told.key.value}.{version}.{listener}.{abs(hash_of(told.name)) % 10**6}"
    peers = (kafka, kaa)
    worlds = [World(peer, told.key, version, listener, prefix) for peer in peers]
    stories = [told.tell(world) for world in worlds]
    answers: list[Any] = [None, None]
    found: list[str] = []
    number = 0
    while True:
        steps = [
            step
            for story, answer in zip(stories, answers, strict=True)
            if (step := _next(story, answer, is_first=number == 0)) is not None
        ]
        if not steps:
            return found
        number += 1
        answers = [
            step.value if isinstance(step, Compare) else _ask(world, step)
            for world, step in zip(worlds, steps, strict=True)
        ]
        expected, got = (normal(answer) for answer in answers)
        first = steps[0]
        asked = first.value if isinstance(first, Compare) else first.request
        label = type(asked).__name__
        found += [f"{number}. {label}{line}" for line in differences(expected, got)]


def hash_of(text: str) -> int:
    """A number for a name that is the same in every process."""
    return sum(ord(character) * 31**index for index, character in enumerate(text))


def _next(story: Story, answer: Any, *, is_first: bool) -> Ask | Compare | None:
    try:
        step = next(story) if is_first else story.send(answer)
    except StopIteration:
        return None
    return Ask(step) if isinstance(step, Request) else step


def _ask(world: World, step: Ask) -> Any:
    key = step.request.api_key
    version, listener = step.version, step.listener
    if key == world.key:
        version = world.version if version is None else version
        listener = listener or world.listener
    if version is None:
        version = api(key).served_versions().high
    return world.peer.ask(step.request, version, listener or BROKER)

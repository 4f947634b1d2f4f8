from __future__ import annotations

from random import Random, SystemRandom

from kaa.clock import SystemClock
from kaa.model.seams import Clock, RandomSource


def draw(random: RandomSource) -> tuple[float, int, bytes]:
    return random.random(), random.randrange(9), random.randbytes(2)


def spent_ms(clock: Clock) -> int:
    begun = clock.monotonic_ms()
    return clock.monotonic_ms() - begun


def test_a_seeded_generator_repeats_itself_and_the_one_of_the_system_fits_too() -> None:
    assert draw(Random(7)) == draw(Random(7))
    assert 0 <= draw(SystemRandom())[1] < 9


def test_the_clock_of_the_machine_fits() -> None:
    assert spent_ms(SystemClock()) >= 0

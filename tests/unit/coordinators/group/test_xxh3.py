"""Published values of the hash, one for each way that input of a length takes."""

from __future__ import annotations

import pytest

from kaa.coordinators.group.xxh3 import xxh3_64

# Over the bytes 0, 1, 2, ... (modulo 251), as the reference implementation gives them.
KNOWN = {
    0: 3244421341483603138,
    1: -4302098779834749733,
    2: -2998166160713018281,
    3: 6864218090047839419,
    4: 6979084321315492338,
    8: 4187271766389786872,
    9: -1629980255024596516,
    16: -8983023575487778597,
    17: -6993173599622040792,
    32: 3829001002278603781,
    33: -1833995589090992552,
    128: -8807326403944725397,
    129: -1407864491810865574,
    200: -852719212082297085,
    240: 3988562325861820517,
    241: 209643423615708418,
    1024: -1884884332538287451,
    1025: -1631356223047067538,
    4000: -8242298241072318685,
}


@pytest.mark.parametrize(("length", "value"), KNOWN.items())
def test_known_values(length: int, value: int) -> None:
    data = bytes(number % 251 for number in range(length))
    assert xxh3_64(data) == value


def test_values_are_those_of_a_java_long() -> None:
    assert all(-(1 << 63) <= value < 1 << 63 for value in KNOWN.values())
    assert any(value < 0 for value in KNOWN.values())

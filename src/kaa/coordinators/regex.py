r"""Regular expressions of clients: RE2 syntax, bounded so that compiling one is quick.

RE2 matches in linear time, but compiles on the loop. What takes long is the expansion of counted
repetitions, which its bound of memory ends, and of Unicode classes such as `\pL`, each of which
has hundreds of ranges: a hundred of them take some 70 ms. So there may be only a few.
"""

from __future__ import annotations

import re
from typing import Any, Final

import re2

from kaa.coordinators.machine import CoordinatorError
from kaa.limits import REGEX_BYTES_MAX, REGEX_CHARACTERS_MAX, REGEX_UNICODE_CLASSES_MAX
from kaa.wire.errors import Errors

_UNICODE_CLASS: Final = re.compile(r"\\[pP]")
_SHOWN_CHARACTERS: Final = 100


def compile_regex(regex: str) -> Any:
    """The expression as RE2 knows it; INVALID_REGULAR_EXPRESSION if it does not, or not so long."""
    classes = len(_UNICODE_CLASS.findall(regex))
    if len(regex) > REGEX_CHARACTERS_MAX or classes > REGEX_UNICODE_CLASSES_MAX:
        raise _refusal(
            f"{_shown(regex)} is too large: regular expressions have {REGEX_CHARACTERS_MAX:,} "
            f"characters and {REGEX_UNICODE_CLASSES_MAX} Unicode classes at most."
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = REGEX_BYTES_MAX
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        raised = error.args[0]
        text = raised.decode("utf-8", "replace") if isinstance(raised, bytes) else str(raised)
        text = f"{_shown(regex)} is not a regular expression of RE2: {_shown(text)}."
        raise _refusal(text) from None


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _refusal(text: str) -> CoordinatorError:
    return CoordinatorError(Errors.INVALID_REGULAR_EXPRESSION, text)

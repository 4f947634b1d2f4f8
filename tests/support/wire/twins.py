"""The codecs of a message, compiled and generated, so that one test runs on both."""

from __future__ import annotations

from functools import cache

from kaa.wire.codec import Codec
from kaa.wire.decoder import compile_decoder
from kaa.wire.encoder import compile_encoder
from kaa.wire.plan import compile_encode_plan, compile_plan, kernel
from kaa.wire.schema import Message

TWINS = ("python",) if kernel is None else ("python", "cython")


@cache
def codec_of(message: type[Message], version: int, twin: str) -> Codec:
    """A codec that reads and writes by the named twin, whichever is the usual one."""
    codec = Codec(message, version)
    if twin == "python":
        codec._needs_bytes = not codec._keeps_view
        codec._decode = compile_decoder(message, version)
        codec._encode = compile_encoder(message, version)
    else:
        codec._decode = compile_plan(message, version)
        plan = compile_encode_plan(message, version)
        assert codec._decode is not None
        assert plan is not None
        codec._encode, codec._frame = plan.encode, plan.frame
    return codec

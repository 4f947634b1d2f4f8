"""OAUTHBEARER (RFC 7628): where tokens come from, and how they are shown to a broker.

Settings are Java's. `sasl.oauthbearer.token.endpoint.url` names the provider: an HTTP(S) address,
which is asked with client credentials, or `file:///path` of a file with a token. The credentials
are `sasl.oauthbearer.client.credentials.client.id` and `...client.secret`, or `clientId` and
`clientSecret` in `sasl.jaas.config`. Without an address the client signs nothing and makes up
its token (`unsecuredLoginStringClaim_sub="me"`): for tests, as Java's default does.

The first message is `n,,` 0x01 `auth=Bearer TOKEN` 0x01 then each extension as `name=value`
0x01, then 0x01. A broker that does not accept it answers with JSON that says why; the client
sends 0x01, and the broker ends the exchange with its error.

A token is used until four fifths of its time have passed, and by all connections of a client.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, unquote, urlencode, urlsplit
from urllib.request import Request, urlopen

from kaa.client.errors import AuthenticationError, SecurityConfigError
from kaa.client.security.tls import trusting_context
from kaa.limits import CLIENT_TOKEN_ATTEMPTS_MAX, CLIENT_TOKEN_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.config.definition import ConfigValues

_SEPARATOR: Final = "\x01"
_LIFETIME_SECONDS: Final = 3_600
_USED_SHARE: Final = 0.8
_TOKEN: Final = re.compile(r"[-._~+/A-Za-z0-9]+=*")
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")


class Token(NamedTuple):
    """A token, and how long it is used."""

    value: str
    # In seconds since 1970; None if it never ends.
    end: float | None
    # By a clock that nobody sets: a date that is set back does not make a token good for longer.
    fresh_until: float

    @classmethod
    def got(cls, value: str, end: float | None, date: float, monotonic: float) -> Self:
        """One that was asked for at this moment; it is replaced in good time before its end."""
        lifetime = 0.0 if end is None else end - date
        return cls(value, end, monotonic + lifetime * _USED_SHARE)

    def is_fresh(self, date: float, monotonic: float) -> bool:
        """Whether it need not be replaced yet. The date counts too: while a machine sleeps, some
        clocks that nobody sets stand still.
        """
        return self.end is None or (monotonic < self.fresh_until and date < self.end)

    def __repr__(self) -> str:
        return "Token([hidden])"


class Bearer:
    """The exchange of one connection."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        self._token = token
        self._extensions = extensions

    def start(self) -> bytes:
        parts = [f"auth=Bearer {self._token}"]
        parts += [f"{name}={value}" for name, value in self._extensions.items()]
        return ("n,," + _SEPARATOR + _SEPARATOR.join(parts) + _SEPARATOR * 2).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        return _SEPARATOR.encode() if challenge else None


class TokenSource:
    """Gets tokens, one at a time, and keeps the last."""

    def __init__(self, values: ConfigValues, options: Mapping[str, str]) -> None:
        self._values = values
        self._options = options
        self._url = values.get_optional_string("sasl.oauthbearer.token.endpoint.url")
        prefix = "extension_" if self._url is not None else "unsecuredLoginExtension_"
        self.extensions = {
            name.removeprefix(prefix): value
            for name, value in options.items()
            if name.startswith(prefix)
        }
        for name in self.extensions:
            if _EXTENSION_NAME.fullmatch(name) is None or name == "auth":
                raise SecurityConfigError(
                    f"{name!r} is not the name of a SASL extension; use letters"
                )
        if self._url is not None and urlsplit(self._url).scheme not in {"file", "http", "https"}:
            raise SecurityConfigError(
                f"sasl.oauthbearer.token.endpoint.url={self._url} is neither http(s) nor file"
            )
        if self._url is None and f"unsecuredLoginStringClaim_{self._principal}" not in options:
            raise SecurityConfigError(
                "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url; for tests, "
                'sasl.jaas.config may make up a token: unsecuredLoginStringClaim_sub="me"'
            )
        self._lock = asyncio.Lock()
        self._token: Token | None = None

    @property
    def _principal(self) -> str:
        return self._options.get("unsecuredLoginPrincipalClaimName", "sub")

    async def token(self) -> str:
        """A token that is fresh; raises AuthenticationError."""
        async with self._lock:
            date, monotonic = time.time(), time.monotonic()
            if self._token is None or not self._token.is_fresh(date, monotonic):
                value = await self._get(date)
                if _TOKEN.fullmatch(value) is None:
                    raise AuthenticationError("the provider did not give a token")
                self._token = Token.got(value, expiry_of(value), date, monotonic)
            return self._token.value

    async def _get(self, now: float) -> str:
        if self._url is None:
            return unsecured_token(self._options, self._principal, now)
        parts = urlsplit(self._url)
        if parts.scheme == "file":
            return await asyncio.to_thread(_read_file, unquote(parts.path))
        return await self._ask(self._url)

    async def _ask(self, url: str) -> str:
        pause_ms = self._values.get_int("sasl.login.retry.backoff.ms")
        for attempt in range(1, CLIENT_TOKEN_ATTEMPTS_MAX + 1):
            try:
                return await asyncio.to_thread(self._post, url)
            except HTTPError as error:
                error.close()
                # Wrong credentials do not become right.
                if error.code < 500 or attempt == CLIENT_TOKEN_ATTEMPTS_MAX:
                    raise AuthenticationError(
                        f"{url} gave no token: {error.code} {error.reason}; check client id, "
                        "secret and sasl.oauthbearer.scope"
                    ) from None
            except (URLError, OSError) as error:
                reason = getattr(error, "reason", None) or error
                if isinstance(reason, ssl.SSLCertVerificationError):
                    raise AuthenticationError(
                        f"{url} gave no token: {reason.verify_message}: its "
                        "certificate is not trusted; set ssl.truststore.location to its issuer's"
                    ) from error
                if attempt == CLIENT_TOKEN_ATTEMPTS_MAX:
                    raise AuthenticationError(
                        f"{url} gave no token: {reason}; check "
                        "sasl.oauthbearer.token.endpoint.url and that the provider runs"
                    ) from error
            await asyncio.sleep(pause_ms * 2 ** (attempt - 1) / 1000)
        raise AssertionError("unreachable")

    def _post(self, url: str) -> str:
        """Runs in a thread, since the library blocks."""
        form = {"grant_type": "client_credentials"}
        scope = self._setting("sasl.oauthbearer.scope", "scope")
        if scope:
            form["scope"] = scope
        request = Request(  # noqa: S310 - the scheme was checked.
            url,
            data=urlencode(form).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": self._authorization(),
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        timeout_ms = self._values.value("sasl.login.read.timeout.ms")
        seconds = timeout_ms / 1000 if isinstance(timeout_ms, int) else None
        context = trusting_context(self._values) if url.startswith("https:") else None
        with urlopen(request, timeout=seconds or 30, context=context) as answer:  # noqa: S310
            body = answer.read(CLIENT_TOKEN_BYTES_MAX)
        try:
            token = json.loads(body)["access_token"]
        except (ValueError, KeyError, TypeError):
            raise AuthenticationError(f"{url} answered without an access_token") from None
        return str(token)

    def _authorization(self) -> str:
        client_id = self._setting("sasl.oauthbearer.client.credentials.client.id", "clientId")
        secret = self._setting("sasl.oauthbearer.client.credentials.client.secret", "clientSecret")
        if not client_id or not secret:
            raise SecurityConfigError(
                "the token endpoint needs sasl.oauthbearer.client.credentials.client.id and "
                "...client.secret, or clientId and clientSecret in sasl.jaas.config"
            )
        if self._values.get_boolean("sasl.oauthbearer.header.urlencode"):
            client_id, secret = quote_plus(client_id), quote_plus(secret)
        return "Basic " + b64encode(f"{client_id}:{secret}".encode()).decode()

    def _setting(self, name: str, option: str) -> str | None:
        value = self._values.value(name)
        if value is None:
            return self._options.get(option)
        reveal = getattr(value, "reveal", None)
        return str(value if reveal is None else reveal())


def unsecured_token(options: Mapping[str, str], principal: str, now: float) -> str:
    """A JWS that nobody signed, with the claims of the options."""
    claims: dict[str, Any] = {}
    for name, value in options.items():
        kind, _, claim = name.partition("_")
        if kind == "unsecuredLoginStringClaim":
            claims[claim] = value
        elif kind == "unsecuredLoginNumberClaim":
            claims[claim] = float(value)
        elif kind == "unsecuredLoginListClaim":
            claims[claim] = value[1:].split(value[0]) if value else []
    lifetime = float(options.get("unsecuredLoginLifetimeSeconds", _LIFETIME_SECONDS))
    claims = {"iat": now, "exp": now + lifetime, **claims}
    assert principal in claims
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


def expiry_of(token: str) -> float | None:
    """When a token ends, if it says so: many providers' tokens are for themselves to read."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        body = parts[1] + "=" * (-len(parts[1]) % 4)
        return float(json.loads(urlsafe_b64decode(body))["exp"])
    except (ValueError, KeyError, TypeError):
        return None


def _read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return file.read(CLIENT_TOKEN_BYTES_MAX).strip()
    except OSError as error:
        raise AuthenticationError(f"cannot read the token in {path}: {error.strerror}") from error

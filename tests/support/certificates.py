"""Certificates of tests, by openssl."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A key, and a certificate for localhost that it signed itself, as PEM files."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files)
    return key, certificate

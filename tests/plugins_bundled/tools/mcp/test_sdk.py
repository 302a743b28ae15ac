"""HTTPS to an MCP server: the certificates that the environment names, loaded once for all clients."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from zeus_plugins.tools.mcp.sdk import http_client


class _Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that no one else signed, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    today = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(signed.public_bytes(Encoding.PEM) + secret)
    return file


@pytest.fixture
def address(certificate: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with HTTPServer(("127.0.0.1", 0), _Hello) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}/"
        server.shutdown()


async def _answer(address: str) -> str:
    async with http_client(timeout=httpx2.Timeout(10)) as http:
        return (await http.get(address)).text


async def test_the_certificates_are_those_that_the_environment_names_now(
    address: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
        await _answer(address)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert await _answer(address) == "hello"
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
        await _answer(address)


async def test_certificates_are_loaded_once_for_all_clients(
    address: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    loaded: list[object] = []
    make = httpx2.create_ssl_context

    def counting() -> ssl.SSLContext:
        loaded.append(None)
        return make()

    monkeypatch.setattr(httpx2, "create_ssl_context", counting)
    assert [await _answer(address) for _ in range(3)] == ["hello"] * 3
    assert len(loaded) == 1

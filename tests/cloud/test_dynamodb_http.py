"""An endpoint uses an open HTTP connection again, but not a connection that closed or broke during a response."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from stratalog.backends import dynamodb_http
from stratalog.backends.dynamodb_http import Endpoint
from stratalog.errors import Invalid, OutcomeUnknown, Unavailable
from stratalog.testing.emulators import free_ports
from tests.threads import SECONDS_MAX, join_all, run_together, start_all, until

REQUEST = b"POST / HTTP/1.1\r\ncontent-length:2\r\n\r\n{}"
COMPLETE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Amz-Crc32:  7 \r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nx: y\r\n\r\n"
CLOSING = COMPLETE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

INCOMPLETE = {
    "nothing": b"",
    "half a status": b"HTTP/1.1 20",
    "half the headers": COMPLETE[:30],
    "half a body": COMPLETE[:-2],
    "another protocol": b"SSH-2.0-OpenSSH_9\r\n\r\n",
    "another version": COMPLETE.replace(b"HTTP/1.1", b"HTTP/2"),
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "no length": b"HTTP/1.1 200 OK\r\n\r\nhello",
    "a wild length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    "too long": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nhello",
    "half a chunk": CHUNKED[:-14],
    "no last chunk": CHUNKED[:-9],
    "a wild chunk": CHUNKED.replace(b"3;", b"zz"),
    "headers for ever": b"HTTP/1.1 200 OK\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(1000)),
    "a line for ever": b"HTTP/1.1 200 OK\r\nh: " + b"x" * 100_000,
}


@pytest.mark.parametrize("answer", [COMPLETE, CHUNKED, CLOSING], ids=["length", "chunks", "closing"])
def test_a_response_is_read_completely(answer: bytes) -> None:
    with served(lambda _: answer) as (endpoint, _):
        for _ in range(3):
            reply = endpoint.exchange(REQUEST)
            assert (reply.status, reply.body) == (200, b"hello")


def test_header_names_are_lower_cased_and_header_values_are_stripped() -> None:
    with served(lambda _: COMPLETE) as (endpoint, _):
        assert endpoint.exchange(REQUEST).headers == {b"content-length": b"5", b"x-amz-crc32": b"7"}


@pytest.mark.parametrize("answer", INCOMPLETE.values(), ids=INCOMPLETE)
def test_an_incomplete_response_is_outcome_unknown_and_its_connection_is_not_reused(answer: bytes) -> None:
    with served(lambda turn: COMPLETE if turn else answer, hangs_up=True) as (endpoint, server):
        with pytest.raises(OutcomeUnknown):
            endpoint.exchange(REQUEST)
        assert endpoint.exchange(REQUEST).body == b"hello"
        assert server.connections == 2


def test_a_response_with_endless_chunks_is_outcome_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamodb_http, "BODY_BYTES_MAX", 9)
    endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"5\r\nhello\r\n" * 1000
    with served(lambda _: endless) as (endpoint, _), pytest.raises(OutcomeUnknown):
        endpoint.exchange(REQUEST)


def test_a_connection_is_used_again() -> None:
    with served(lambda _: COMPLETE) as (endpoint, server):
        for _ in range(5):
            endpoint.exchange(REQUEST)
        assert server.connections == 1


def test_a_connection_that_the_server_will_close_is_not_used_again() -> None:
    with served(lambda _: CLOSING) as (endpoint, server):
        for _ in range(3):
            endpoint.exchange(REQUEST)
        assert server.connections == 3


def test_a_connection_that_the_server_closed_while_idle_is_replaced_without_an_error() -> None:
    with served(lambda _: COMPLETE, hangs_up=True) as (endpoint, server):
        for _ in range(3):
            endpoint.exchange(REQUEST)
            assert server.hung_up.acquire(timeout=SECONDS_MAX)
        assert server.connections == 3


def test_a_connection_that_becomes_idle_during_a_close_is_closed() -> None:
    with served(lambda _: COMPLETE) as (endpoint, _):

        class Raced(deque[Any]):
            def append(self, connection: Any) -> None:
                endpoint.close()
                super().append(connection)

        endpoint._idle = Raced()
        endpoint.exchange(REQUEST)
        assert not endpoint._idle


def test_a_response_that_takes_too_long_is_outcome_unknown() -> None:
    with served(lambda turn: COMPLETE if turn else None, answer_seconds=0.05) as (endpoint, server):
        with pytest.raises(OutcomeUnknown):
            endpoint.exchange(REQUEST)
        until(lambda: server.requests == 1)  # the server may read it after the client's time limit
        endpoint._answer_seconds = SECONDS_MAX
        assert endpoint.exchange(REQUEST).body == b"hello"


def test_after_a_lost_response_on_a_reused_connection_all_idle_connections_are_replaced() -> None:
    connected = threading.Barrier(2)

    def answer(turn: int) -> bytes:
        if turn < 2:
            connected.wait(SECONDS_MAX)
        return INCOMPLETE["another protocol"] if turn == 2 else COMPLETE

    with served(answer) as (endpoint, server):
        run_together([lambda: endpoint.exchange(REQUEST)] * 2)
        with pytest.raises(OutcomeUnknown):
            endpoint.exchange(REQUEST)
        endpoint.exchange(REQUEST)
        assert server.connections == 3


def test_a_refused_connection_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        Endpoint(f"http://127.0.0.1:{free_ports(1)[0]}").exchange(REQUEST)


def test_an_https_endpoint_sends_no_request_to_a_server_without_tls() -> None:
    with served(lambda _: COMPLETE) as (plain, server), pytest.raises(Unavailable):
        Endpoint(f"https://{plain.host}").exchange(REQUEST)
    assert server.requests == 0


def test_threads_have_connections_of_their_own() -> None:
    """The server answers no thread before all threads have sent their first requests."""
    together, connection = threading.Barrier(8), threading.local()

    def answer(_: int) -> bytes:
        if not hasattr(connection, "has_answered"):
            together.wait(SECONDS_MAX)
            connection.has_answered = True
        return COMPLETE

    with served(answer) as (endpoint, server):
        replies: list[bytes] = []
        run_together([lambda: replies.extend(endpoint.exchange(REQUEST).body for _ in range(50))] * 8)
        assert replies == [b"hello"] * 400
        assert server.connections == 8


def test_a_forked_child_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(lambda _: COMPLETE) as (endpoint, server):
        endpoint.exchange(REQUEST)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        endpoint.exchange(REQUEST)
        assert server.connections == 2


def test_requests_work_over_a_reused_tls_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certify(tmp_path)))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with served(lambda _: COMPLETE, tls=tmp_path) as (endpoint, server):
        assert [endpoint.exchange(REQUEST).body for _ in range(3)] == [b"hello"] * 3
        assert server.connections == 1


def test_no_request_is_sent_to_a_server_with_an_untrusted_certificate(tmp_path: Path) -> None:
    certify(tmp_path)
    with served(lambda _: COMPLETE, tls=tmp_path) as (endpoint, server):
        with pytest.raises(Unavailable):
            endpoint.exchange(REQUEST)
        assert server.requests == 0


def test_a_root_certificate_is_found_by_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL names a root by the SHA-1 of its subject in canonical form. This subject is already in that form."""
    pem = certify(tmp_path)
    subject = x509.load_pem_x509_certificate(pem.read_bytes()).subject.public_bytes()[2:]
    name = f"{int.from_bytes(hashlib.sha1(subject).digest()[:4], 'little'):08x}.0"
    folder = tmp_path / "roots"
    folder.mkdir()
    pem.rename(folder / name)
    (tmp_path / "certificate.pem").symlink_to(folder / name)
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))
    with served(lambda _: COMPLETE, tls=tmp_path) as (endpoint, _):
        assert endpoint.exchange(REQUEST).body == b"hello"
        assert endpoint._has_all_roots is False


def test_a_root_certificate_that_only_the_certificate_file_has_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "roots"
    folder.mkdir()
    (folder / "00000000.0").write_text("")
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    monkeypatch.setenv("SSL_CERT_FILE", str(certify(tmp_path)))
    with served(lambda _: COMPLETE, tls=tmp_path) as (endpoint, _):
        assert endpoint.exchange(REQUEST).body == b"hello"


@pytest.mark.parametrize("url", ["ftp://x", "x:80", "https://", ""])
def test_an_endpoint_that_is_not_an_http_url_is_invalid(url: str) -> None:
    with pytest.raises(Invalid):
        Endpoint(url)


class Server:
    """A server on loopback. ``answer`` gives the bytes of the n-th response, or None for no response."""

    def __init__(self, answer: Callable[[int], bytes | None], hangs_up: bool, tls: Path | None) -> None:
        self.connections = 0
        self.requests = 0
        self.hung_up = threading.Semaphore(0)
        self._answer = answer
        self._hangs_up = hangs_up
        self._tls = _server_side(tls) if tls else None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = start_all([self._accept])

    def close(self) -> None:
        """Wait until all threads have ended. The caller has closed its connections.

        Each thread closes its own socket. If another thread closed it, a system call that is about to begin could read
        from the next socket with the same descriptor, which belongs to the next test.
        """
        self._listener.shutdown(socket.SHUT_RDWR)
        join_all(self._threads[:1])
        join_all(self._threads[1:])

    def _accept(self) -> None:
        with self._listener:
            while True:
                try:
                    connection, _ = self._listener.accept()
                except OSError:
                    return
                self.connections += 1
                self._threads += start_all([partial(self._serve, connection)])

    def _serve(self, plain: socket.socket) -> None:
        with plain, suppress(OSError), self._tls.wrap_socket(plain, server_side=True) if self._tls else plain as stream:
            while stream.recv(65536) == REQUEST:
                turn, self.requests = self.requests, self.requests + 1
                if (answer := self._answer(turn)) is not None:
                    stream.sendall(answer)
                if self._hangs_up:
                    break
            stream.shutdown(socket.SHUT_RDWR)
            self.hung_up.release()


@contextmanager
def served(
    answer: Callable[[int], bytes | None],
    *,
    hangs_up: bool = False,
    answer_seconds: float = SECONDS_MAX,
    tls: Path | None = None,
) -> Iterator[tuple[Endpoint, Server]]:
    """Run a server. Yield an endpoint that connects to the server, and the server."""
    server = Server(answer, hangs_up, tls)
    endpoint = Endpoint(f"{'https' if tls else 'http'}://127.0.0.1:{server.port}", answer_seconds=answer_seconds)
    try:
        yield endpoint, server
    finally:
        endpoint.close()
        server.close()


def certify(folder: Path) -> Path:
    """Create a key and a self-signed certificate for loopback."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


def _server_side(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context

"""The program of an engine's process: one V8 with o-spreadsheet, and one request after the other over a socket.

The parent runs this file itself (`engine.py`), so that a process starts without importing Stratalog. Its standard input
is the socket. A frame is two lengths, a head in JSON, and a body; the process ends when the socket does.

The operating system bounds it: memory by RLIMIT_DATA, since V8 reserves more address space than RLIMIT_AS could allow,
and CPU time by RLIMIT_CPU, renewed before each request. V8's own limits come first, where V8 keeps them.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import select
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

LENGTHS = struct.Struct(">II")
WITH_DOCUMENTS = ("importXlsx", "exportXlsx")
MAY_BE_NULL = ("apply", "cell", "close")
PARENT_CHECK_SECONDS = 5
NICENESS = 10
_EXPORT = re.compile(r"^export \{([^}]*)\};?\s*\Z", re.MULTILINE)
_PROGRAM_BYTES = re.compile(r"^VmData:\s*(\d+) kB", re.MULTILINE)


class EngineProcess:
    """The V8 and what is loaded into it."""

    def __init__(self, options: dict[str, Any]) -> None:
        from py_mini_racer import MiniRacer

        self._options = options
        self._vm: Any = MiniRacer()
        self._vm.set_hard_memory_limit(options["heap_bytes"])
        for name in options["sources"]:
            self._vm.eval(f"{Path(name).read_text()}\n;0")
        self._call: Any = self._vm.eval("bridge.call")
        self._has_documents = False

    def run(self, name: str, text: str, seconds: float) -> tuple[str, str]:
        """What came of a call: `ok` with the answer, or `time`, `memory`, `refused` with a reason."""
        import py_mini_racer as racer

        try:
            if name in WITH_DOCUMENTS:
                self._load_documents()
            answer = self._call(name, text, timeout_sec=seconds)
            if not isinstance(answer, str) and hasattr(answer, "get"):
                answer = answer.get(timeout=seconds)
        except (racer.JSTimeoutException, TimeoutError) as exc:
            return "time", _first_line(exc)
        except (racer.JSOOMException, MemoryError) as exc:
            return "memory", _first_line(exc)
        except (racer.JSEvalException, racer.JSPromiseError) as exc:
            return "memory" if self._vm.was_hard_memory_limit_reached() else "refused", _first_line(exc)
        # V8 at its limit has answered null, as a value and as text, instead of an error.
        is_lost = not isinstance(answer, str) or (answer == "null" and name not in MAY_BE_NULL)
        if is_lost or self._vm.was_hard_memory_limit_reached():
            return "memory", "no answer"
        return "ok", answer

    def _load_documents(self) -> None:
        """Load linkedom, an ES module, which a bare V8 does not take: its exports become one object."""
        if self._has_documents:
            return
        module, own = (Path(name).read_text() for name in self._options["documents"])
        text = module.replace("\nexport const ", "\nconst ")
        exported = _EXPORT.search(text)
        assert exported is not None, "linkedom's exports are not at its end"
        names = [name.strip().split(" as ") for name in exported[1].split(",")]
        exports = ", ".join(f"{name[-1]}: {name[0]}" for name in names)
        self._vm.eval(f"globalThis.linkedom = (() => {{ {text[: exported.start()]}\nreturn {{ {exports} }}; }})();0")
        self._vm.eval(f"{own}\n;0")
        self._has_documents = True


def main() -> NoReturn:
    """Serve until the socket or the parent ends."""
    try:
        _serve()
    finally:
        # A V8 that still stands when the interpreter ends keeps the process from ending.
        os._exit(1)


def _serve() -> NoReturn:
    options = json.loads(sys.argv[1])
    line = socket.socket(fileno=0)
    threading.Thread(target=_end_with_parent, args=(line, os.getppid()), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A formula may take minutes. The server that shares its core goes first.
    os.nice(NICENESS)
    try:
        machine = EngineProcess(options)
        _bound_memory(options["process_bytes"])
    except Exception as exc:  # noqa: BLE001 - the parent is the one to raise it
        _send(line, "failed", f"{type(exc).__name__}: {exc}".encode())
        os._exit(1)
    _send(line, "ready")
    while True:
        head, body = _receive(line)
        _bound_cpu(head["cpu_seconds"])
        status, answer = machine.run(head["name"], body.decode(), head["seconds"])
        _send(line, status, answer.encode(errors="replace"))


def _end_with_parent(line: socket.socket, parent: int) -> NoReturn:
    """End when the socket or the parent does, also amid a call. A fork of the parent may hold the socket open."""
    poll = select.poll()
    poll.register(line, getattr(select, "POLLRDHUP", select.POLLHUP))
    while os.getppid() == parent:
        if poll.poll(PARENT_CHECK_SECONDS * 1000):
            break
    os._exit(0)


def _bound_memory(more_bytes: int) -> None:
    """Let the process have so much more memory than it has now. Only Linux says how much that is."""
    try:
        now = _PROGRAM_BYTES.search(Path("/proc/self/status").read_text())
    except OSError:
        return
    if now is not None:
        limit = int(now[1]) * 1024 + more_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _bound_cpu(seconds: float) -> None:
    """Let the process have so much more CPU time; SIGXCPU ends it. The hard limit could not be raised again."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    wanted = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard < 0 else min(wanted, hard), hard))


def _send(line: socket.socket, status: str, body: bytes = b"") -> None:
    head = json.dumps({"status": status}).encode()
    try:
        line.sendall(b"".join((LENGTHS.pack(len(head), len(body)), head, body)))
    except OSError:
        os._exit(0)


def _receive(line: socket.socket) -> tuple[dict[str, Any], bytes]:
    head, body = LENGTHS.unpack(_exactly(line, LENGTHS.size))
    return json.loads(_exactly(line, head)), _exactly(line, body)


def _exactly(line: socket.socket, count: int) -> bytes:
    held = bytearray()
    while len(held) < count:
        piece = line.recv(min(count - len(held), 1 << 20))
        if not piece:
            os._exit(0)
        held += piece
    return bytes(held)


def _first_line(exc: BaseException) -> str:
    return str(exc).strip().partition("\n")[0]


if __name__ == "__main__":
    main()

"""The program of an engine's process: a V8 with o-spreadsheet that serves one request at a time over a socket.

The parent (`engine.py`) runs this file as a script, so that the process starts without importing Stratalog. The socket
is the process's standard input. A frame is two lengths, a head in JSON, and a body. The process ends when the socket
closes.

RLIMIT_DATA limits the memory of the process. RLIMIT_AS is unsuitable, because V8 reserves much unused address space.
RLIMIT_CPU limits the CPU time; the process raises this limit before each request. V8 also has a lower limit on its
heap, but V8 does not check the heap limit everywhere.
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
    """A V8 with the engine loaded."""

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
        """Call a function of the bridge. Return (`ok`, result); on failure (`time`, `memory` or `refused`, reason)."""
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
        # At its memory limit V8 may return null, as a value or as text, instead of raising an error.
        is_lost = not isinstance(answer, str) or (answer == "null" and name not in MAY_BE_NULL)
        if is_lost or self._vm.was_hard_memory_limit_reached():
            return "memory", "no answer"
        return "ok", answer

    def _load_documents(self) -> None:
        """Load linkedom once. V8 alone cannot load ES modules, so rewrite linkedom's exports as one object."""
        if self._has_documents:
            return
        module, own = (Path(name).read_text() for name in self._options["documents"])
        text = module.replace("\nexport const ", "\nconst ")
        exported = _EXPORT.search(text)
        assert exported is not None, "linkedom does not end with its exports"
        names = [name.strip().split(" as ") for name in exported[1].split(",")]
        exports = ", ".join(f"{name[-1]}: {name[0]}" for name in names)
        self._vm.eval(f"globalThis.linkedom = (() => {{ {text[: exported.start()]}\nreturn {{ {exports} }}; }})();0")
        self._vm.eval(f"{own}\n;0")
        self._has_documents = True


def main() -> NoReturn:
    """Serve requests until the socket closes or the parent ends."""
    try:
        _serve()
    finally:
        # A live V8 keeps the process running after the interpreter's shutdown, so skip the shutdown.
        os._exit(1)


def _serve() -> NoReturn:
    options = json.loads(sys.argv[1])
    line = socket.socket(fileno=0)
    threading.Thread(target=_end_with_parent, args=(line, os.getppid()), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A call may use a core for many seconds. So give this process a lower priority than the server on the same core.
    os.nice(NICENESS)
    try:
        machine = EngineProcess(options)
        _bound_memory(options["process_bytes"])
    except Exception as exc:  # noqa: BLE001 - the parent raises the error
        _send(line, "failed", f"{type(exc).__name__}: {exc}".encode())
        os._exit(1)
    _send(line, "ready")
    while True:
        head, body = _receive(line)
        _bound_cpu(head["cpu_seconds"])
        status, answer = machine.run(head["name"], body.decode(), head["seconds"])
        _send(line, status, answer.encode(errors="replace"))


def _end_with_parent(line: socket.socket, parent: int) -> NoReturn:
    """End the process when the socket closes or the parent ends, even during a call. Runs on a separate thread."""
    # Watch the socket and the parent, because a fork of the parent may keep the socket open after the parent has ended.
    poll = select.poll()
    poll.register(line, getattr(select, "POLLRDHUP", select.POLLHUP))
    while os.getppid() == parent:
        if poll.poll(PARENT_CHECK_SECONDS * 1000):
            break
    os._exit(0)


def _bound_memory(more_bytes: int) -> None:
    """Limit the process to ``more_bytes`` beyond its present memory. Do nothing if the system is not Linux."""
    try:
        now = _PROGRAM_BYTES.search(Path("/proc/self/status").read_text())
    except OSError:
        return
    if now is not None:
        limit = int(now[1]) * 1024 + more_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _bound_cpu(seconds: float) -> None:
    """Let SIGXCPU end the process after ``seconds`` more seconds of CPU time.

    Set only the soft limit, so that the next call can raise this limit.
    """
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

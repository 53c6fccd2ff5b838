"""The engine: o-spreadsheet in a V8 of this process, spoken to in JSON.

V8 has no browser around it: `javascript/stubs.js` stands in for what the engine asks of one, linkedom for the documents
in which it reads and writes xlsx, and `javascript/bridge.js` holds the models.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stratalog.apps.sheet.place import engine_folder, install_engine, own_file
from stratalog.errors import Invalid, LimitExceeded, Unavailable
from stratalog.limits import SHEET_ENGINE_BYTES_MAX, SHEET_ENGINE_SECONDS_MAX

__all__ = ["Engine", "engine_folder", "install_engine"]

DISCARD_SECONDS_MAX = 10
_EXPORT = re.compile(r"^export \{([^}]*)\};?\s*\Z", re.MULTILINE)


class Engine:
    """One V8 with the engine, for one caller at a time; started at the first call. Safe to share between threads.

    Models live inside it under keys that the caller chooses. ``starts`` counts how often it was started: one that ran
    out of time or memory is thrown away with all its models, and the next call starts another.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.lock = threading.RLock()
        self.starts = 0
        self._folder = folder
        self._vm: Any = None
        self._call: Any = None
        self._end: Callable[[], object] = _nothing
        self._has_documents = False

    def call(self, name: str, **arguments: Any) -> Any:
        """What the bridge's function answers. See `raw`."""
        return msgspec.json.decode(self.raw(name, **arguments))

    def raw(self, name: str, **arguments: Any) -> bytes:
        """The same as JSON. Bytes among the arguments are JSON already.

        Raises Unavailable where the engine is not there, LimitExceeded where it took too long or too much memory,
        Invalid for what it refused.
        """
        plain = {key: msgspec.Raw(value) if isinstance(value, bytes) else value for key, value in arguments.items()}
        text = msgspec.json.encode(plain).decode()
        with self.lock:
            self.start()
            if name in ("importXlsx", "exportXlsx"):
                self._load_documents()
            return self._run(name, text)

    def start(self) -> None:
        """Start it, unless it runs."""
        with self.lock:
            if self._vm is not None:
                return
            folder = self._folder or engine_folder()
            vm = self._vm = _new_vm()
            # A V8 that still stands when the interpreter ends keeps the process from ending.
            self._end = weakref.finalize(self, vm.close)
            self.starts += 1
            self._has_documents = False
            self._vm.set_hard_memory_limit(SHEET_ENGINE_BYTES_MAX)
            engine = folder / "o-spreadsheet" / "dist" / "o_spreadsheet.iife.js"
            for source in (own_file("stubs.js"), engine.read_bytes(), own_file("bridge.js")):
                self._vm.eval(f"{source.decode()}\n;0")
            self._call = self._vm.eval("bridge.call")

    def close(self) -> None:
        """Let go of it, and of every model in it."""
        with self.lock:
            self._vm = self._call = None
            self._end()

    def _run(self, name: str, text: str) -> bytes:
        import py_mini_racer as racer

        try:
            answer = self._call(name, text, timeout_sec=SHEET_ENGINE_SECONDS_MAX)
            if not isinstance(answer, str):
                answer = answer.get(timeout=SHEET_ENGINE_SECONDS_MAX)
        except racer.JSTimeoutException as exc:
            self._discard()
            text = "the spreadsheet's engine took too long"
            raise LimitExceeded(text, call=name, limit_seconds=SHEET_ENGINE_SECONDS_MAX) from exc
        except racer.JSOOMException as exc:
            self._discard()
            text = "the spreadsheet's engine ran out of memory"
            raise LimitExceeded(text, call=name, limit_bytes=SHEET_ENGINE_BYTES_MAX) from exc
        except (racer.JSEvalException, racer.JSPromiseError) as exc:
            reason = str(exc).strip().partition("\n")[0]
            raise Invalid("the spreadsheet's engine refused", call=name, reason=reason) from exc
        return str(answer).encode()

    def _discard(self) -> None:
        """Close it after a call that was broken off: once it answers again, the broken call's own answer has come."""
        import py_mini_racer as racer

        with suppress(racer.JSEvalException, racer.JSOOMException, racer.JSTimeoutException):
            self._vm.eval("0", timeout_sec=DISCARD_SECONDS_MAX)
        self.close()

    def _load_documents(self) -> None:
        """Load linkedom, an ES module, which a bare V8 does not take: its exports become one object."""
        if self._has_documents:
            return
        folder = self._folder or engine_folder()
        text = (folder / "linkedom" / "worker.js").read_text().replace("\nexport const ", "\nconst ")
        found = _EXPORT.search(text)
        if found is None:
            raise Unavailable("linkedom's exports are not where they were", folder=folder)
        names = [name.strip().split(" as ") for name in found[1].split(",")]
        exports = ", ".join(f"{name[-1]}: {name[0]}" for name in names)
        self._vm.eval(f"globalThis.linkedom = (() => {{ {text[: found.start()]}\nreturn {{ {exports} }}; }})();0")
        self._vm.eval(own_file("documents.js").decode() + "\n;0")
        self._has_documents = True


def _nothing() -> None:
    pass


def _new_vm() -> Any:
    try:
        from py_mini_racer import MiniRacer
    except ModuleNotFoundError as exc:
        raise Unavailable('the spreadsheet needs more: pip install "stratalog[sheet]"', reason=str(exc)) from exc
    return MiniRacer()

"""Bugs planted in a folder of blobs that processes share. Each bug breaks one rule about races and killed processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from stratalog.backends import files as files_module
from stratalog.backends.files import FileBlobs
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.world_folder import FolderWorld

__all__ = ["MUTANTS"]

# Look up the functions of `files` at each call, because the simulation replaces their `os`, `fcntl` and `open` during
# a seed.
files: Any = files_module


def _unlink_unlocked(self: Any, path: str, stamp: str) -> bool:
    """The mutant of `FileBlobs._unlink_generation` that compares and unlinks without the file's lock."""
    try:
        if files._stamp(os.stat(path)) != stamp:
            return False
        files.os.unlink(path)
        return True
    except FileNotFoundError:
        return False


def _unlink_aside(self: Any, path: str, stamp: str) -> bool:
    """The mutant of `FileBlobs._unlink_generation` that first renames the file. Readers then do not find the blob."""
    aside = os.path.join(self._folder, files.NEW, files.new_id(self._clock))
    try:
        files.os.rename(path, aside)
        if files._stamp(os.stat(aside)) == stamp:
            files.os.unlink(aside)
            return True
        files.make_shared_folder(os.path.dirname(path), self._folder)
        files._link(aside, path)
        files._unlink_if_there(aside)
    except FileNotFoundError:
        pass
    return False


def _remove_nothing(self: Any) -> None:
    """The mutant of `FileBlobs._remove_unfinished` that removes nothing."""


def _refresh_once(self: Any, path: str) -> bool:
    """The mutant of `FileBlobs._refresh` that does not check whether another process has removed the file meanwhile."""
    try:
        with files.open(path, "rb") as file:
            files.os.utime(file.fileno(), ns=self._times())
            self._sync_descriptor(file.fileno())
        return True
    except FileNotFoundError:
        return False


def _mutant(name: str, attribute: str, bug: Callable[..., Any], *caught_by: str) -> Mutant:
    return Mutant(f"folder: {name}", FolderWorld, replaced(FileBlobs, attribute, bug), caught_by)


LOST = "acknowledged blob"
MUTANTS = (
    _mutant("deleted without the lock", "_unlink_generation", _unlink_unlocked, LOST, "blob's age"),
    _mutant("renamed aside to delete", "_unlink_generation", _unlink_aside, LOST),
    _mutant("opening leaves unfinished files", "_remove_unfinished", _remove_nothing, "left over"),
    _mutant("refreshed without a second look", "_refresh", _refresh_once, LOST),
)

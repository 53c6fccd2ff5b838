"""Bugs planted in the folder of blobs, one for each rule about processes that share it and are killed amid a change."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from stratalog.backends import files as files_module
from stratalog.backends.files import ASIDE, FileBlobs
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.world_folder import FolderWorld

__all__ = ["MUTANTS"]

files: Any = files_module  # its names are looked up late: they are stepping ones while a seed runs


def _remove_all_aside(self: Any) -> None:
    """The mutant of `FileBlobs._put_back_all` that takes what a running process has aside for garbage."""
    for folder, _, names in files.os.walk(os.path.join(self._folder, ASIDE), topdown=False):
        for name in names:
            files._unlink_if_there(os.path.join(folder, name))


def _leave_all_aside(self: Any) -> None:
    """The mutant of `FileBlobs._put_back_all` that leaves what a killed process had aside."""


def _unlink_unseen(self: Any, key: str, stamp: str, aside: str, path: str) -> bool:
    """The mutant of `FileBlobs._unlink_generation` without the look that decides."""
    self._unlink_aside(aside)
    return True


def _remove_nothing(self: Any) -> None:
    """The mutant of `FileBlobs._remove_unfinished` that removes nothing."""


def _refresh_once(self: Any, path: str) -> bool:
    """The mutant of `FileBlobs._refresh` that does not look whether the file was renamed aside meanwhile."""
    try:
        with files.open(path, "rb") as file:
            files.os.utime(file.fileno(), ns=self._times())
            self._sync_descriptor(file.fileno())
        return True
    except FileNotFoundError:
        return False


def _put_back_nothing(self: Any, paths: Any) -> bool:
    """The mutant of `FileBlobs._put_back_blob`: who misses a blob does not look aside."""
    return False


def _mutant(name: str, attribute: str, bug: Callable[..., Any], *caught_by: str) -> Mutant:
    return Mutant(f"folder: {name}", FolderWorld, replaced(FileBlobs, attribute, bug), caught_by)


LOST = "acknowledged blob"
MUTANTS = (
    _mutant("opening removes what is aside", "_put_back_all", _remove_all_aside, LOST),
    _mutant("opening leaves what is aside", "_put_back_all", _leave_all_aside, LOST, "left over"),
    _mutant("deleted without a look at what is aside", "_unlink_generation", _unlink_unseen, LOST),
    _mutant("opening leaves what was begun", "_remove_unfinished", _remove_nothing, "left over"),
    _mutant("refreshed without a second look", "_refresh", _refresh_once, LOST),
    _mutant("who misses a blob does not look aside", "_put_back_blob", _put_back_nothing, LOST),
)

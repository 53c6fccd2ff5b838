"""Reading a record's versions: one, the latest, or all in order. A forgotten version raises an error or is skipped."""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.clock import Observation
from stratalog.errors import Corrupt, NotFound, VersionForgotten
from stratalog.keys import check_version, number, parse_number
from stratalog.limits import OBSERVATION_SECONDS_MAX
from stratalog.log.environment import Environment
from stratalog.ports.index import Item
from stratalog.records.floor import read_floor
from stratalog.records.versions import Name, checked_item, latest_item, unchecked_latest_item

__all__ = ["check_superseded", "item_at", "item_of", "items_in_order"]


def item_of(environment: Environment, name: Name, version: int | None) -> Item:
    """Return the item of ``version``, or the latest item if None.

    The latest item costs one read. A given version costs two reads.

    Raises NotFound, VersionForgotten, Corrupt.
    """
    if version is not None:
        return item_at(environment, name, version) or _missing(environment, name, version)
    item = latest_item(environment.index, name.partition)
    if item is None:
        raise NotFound("record not found", record=name.id)
    return item


def item_at(environment: Environment, name: Name, version: int) -> Item | None:
    """Return the item stored under ``version``, or None. Raises VersionForgotten, Corrupt.

    The order of the two reads matters. A late write can put an item at a freed position, but only after the floor rose
    above this position.
    """
    item = environment.index.get(name.partition, number(version))
    floor = read_floor(environment.index, name)
    if 0 < version < floor.version:
        raise VersionForgotten("the version is forgotten", record=name.id, version=version, floor=floor.version)
    return None if item is None else checked_item(item)


def check_superseded(environment: Environment, name: Name, version: int) -> None:
    """Raise Corrupt if a version that was found forgotten is still the latest: then the later versions are lost.

    A floor is never above the latest version of that moment, and nothing deletes the latest version.
    """
    if _latest_version(environment, name) <= version:
        raise Corrupt("the latest version is forgotten, so a later one is missing", record=name.id, version=version + 1)


def items_in_order(
    environment: Environment, name: Name, *, reverse: bool = False, before: int | None = None
) -> Iterator[Item]:
    """Yield the items of all kept versions below ``before``, up to the version that is the latest now. Reads no body.

    Versions that are forgotten during the iteration are skipped. If all of these versions are forgotten, the function
    yields the versions that are kept by then. Raises NotFound, and Corrupt for a gap, also if all kept versions are
    lost.
    """
    latest = _latest_version(environment, name)
    newest = latest if before is None else min(latest, check_version(before) - 1)
    seen, floor = Observation(environment.clock), read_floor(environment.index, name).version
    is_empty = True
    wanted = newest if reverse else floor
    for item in environment.index.query(
        name.partition, after=number(floor - 1), before=number(newest + 1), reverse=reverse
    ):
        version = parse_number(item.sort)
        # Read the floor again at a gap, because a floor that rose meanwhile explains the gap. Also read it again if the
        # last reading is too old.
        if version != wanted or seen.age_seconds() > OBSERVATION_SECONDS_MAX:
            seen, floor = Observation(environment.clock), read_floor(environment.index, name).version
            wanted = wanted if reverse else max(wanted, floor)
        if version < floor:
            continue
        if version != wanted:
            break
        yield checked_item(item)
        is_empty = False
        wanted += -1 if reverse else 1
    floor = read_floor(environment.index, name).version
    if floor <= wanted <= newest:
        raise Corrupt("a version of a record is missing", record=name.id, version=wanted)
    if is_empty and latest < floor:
        # Other writers put newer versions, and a prune forgot all versions up to ``latest``.
        check_superseded(environment, name, latest)
        yield from items_in_order(environment, name, reverse=reverse, before=before)


def _latest_version(environment: Environment, name: Name) -> int:
    """Return the number of the latest version, also if its item is damaged. Raises NotFound."""
    latest = unchecked_latest_item(environment.index, name.partition)
    if latest is None:
        raise NotFound("record not found", record=name.id)
    return parse_number(latest.sort)


def _missing(environment: Environment, name: Name, version: int) -> Item:
    """Read a version again that a first read did not find, since a writer may have put it meanwhile. Return its item.

    Raises NotFound if the version does not exist yet, Corrupt if it is missing although a later version exists.
    """
    latest = unchecked_latest_item(environment.index, name.partition)
    if latest is None or not 0 < version <= parse_number(latest.sort):
        raise NotFound("version of the record not found", record=name.id, version=version)
    item = item_at(environment, name, version)
    if item is None:
        raise Corrupt("a version of a record is missing", record=name.id, version=version)
    return item

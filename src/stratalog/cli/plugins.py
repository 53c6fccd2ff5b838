"""Commands of other distributions: click commands from entry points of the group `stratalog.commands`."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import click

__all__ = ["OWN_PLUGINS", "plugin_command", "plugin_names"]

GROUP = "stratalog.commands"
OWN_PLUGINS = frozenset({"sheet", "table", "catalogue"})
"""The commands of the project's other distributions. For example, ``stratalog-sheet`` has the command ``sheet``."""


class BrokenCommand(click.Command):
    """A command that could not be loaded. The help shows the reason, and a run of the command reports it."""

    def __init__(self, point: EntryPoint, reason: str) -> None:
        owner = point.dist.name if point.dist else "an unknown distribution"
        self.message = f"{point.name!r} of {owner} cannot be loaded: {reason}"
        super().__init__(
            point.name,
            short_help=f"(broken) {reason}",
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )

    def invoke(self, ctx: click.Context) -> None:
        raise click.ClickException(self.message)


def plugin_names() -> list[str]:
    """Return the names of all plugin commands, sorted, without loading a plugin."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def plugin_command(name: str) -> click.Command | None:
    """Return the command of that name, a BrokenCommand if it fails to load, or None if no plugin has it."""
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        return None
    try:
        loaded = point.load()
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - no error and no exit of a plugin may break other commands
        return BrokenCommand(point, f"{type(exc).__name__}: {exc}")
    if not isinstance(loaded, click.Command):
        return BrokenCommand(point, f"{point.value} is not a click command")
    return loaded

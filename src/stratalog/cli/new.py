"""The command that writes the template of an application: mutators, rules, and a test of both."""

from __future__ import annotations

import keyword
from importlib import resources
from pathlib import Path

import click

from stratalog.cli.output import note
from stratalog.cli.session import Session, command

__all__ = ["COMMANDS"]

TEMPLATE = "template"
NAME = "myapp"


@command("new", example="stratalog new myapp")
@click.argument("name")
def new(session: Session, name: str) -> None:
    """Write a sample application into a new folder: mutators, rules, and a test of both."""
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
        raise click.BadParameter(f"{name!r} is not the name of a Python module, as in myapp")
    folder = Path(name)
    if folder.exists():
        raise click.BadParameter(f"{name!r} already exists")
    files = _write(folder, name)
    session.answer({"folder": str(folder), "files": files}, f"wrote {', '.join(files)}")
    if not session.json:
        note(f"cd {name}; python -m pytest; stratalog serve {name}:app")


def _write(folder: Path, name: str) -> list[str]:
    """Copy the template under the application's name, and return the paths of the files."""
    written = []
    folder.mkdir()
    for source in sorted(resources.files("stratalog.cli").joinpath(TEMPLATE).iterdir(), key=lambda path: path.name):
        target = folder / source.name.removesuffix(".txt").replace(NAME, name)
        target.write_text(source.read_text().replace(NAME, name))
        written.append(str(target))
    return written


COMMANDS = [new]

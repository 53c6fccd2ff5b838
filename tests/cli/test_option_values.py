"""Commands refuse numbers that are not finite, and name a missing dependency."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("work", "--drain", "--visibility"),
        ("collect", "--until"),
        ("cost", "--warm-ms"),
        ("cost", "--cold-ms"),
        ("catalogue", "poll", "acme", "--every"),
    ],
)
def test_a_number_that_is_not_finite_is_a_usage_error(arguments: tuple[str, ...], value: str, budget: Run) -> None:
    assert arguments[-1] in budget(*arguments, value, code=2).stderr


def test_a_worker_without_the_metrics_library_names_the_extra(budget: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert "stratalog[server]" in budget("work", "--drain", "--metrics-port", "0", code=2).stderr


def test_a_change_of_sys_path_by_a_measured_module_persists(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "costs_with_a_path.py").write_text(
        "import sys\n\nsys.path.insert(0, '/of/the/module')\n\ndef day(store):\n    store.create('acme', 'plan')\n"
    )
    before = [*sys.path]
    run("cost", "--run", "costs_with_a_path:day")
    assert sys.path == ["/of/the/module", *before]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_limit_above_every_count_shows_all_keys(options: tuple[str, ...], budget: Run) -> None:
    shown = budget("show", "acme/budget", *options).stdout
    assert budget("show", "acme/budget", "--limit", str(2**64), *options).stdout == shown

"""The script that runs ESLint and TypeScript fails if ESLint or TypeScript fails, or if a signal ends one of them."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.delitem(sys.modules, "dataset", raising=False)
    spec = importlib.util.spec_from_file_location("check_javascript", SCRIPTS / "check_javascript.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delitem(sys.modules, "dataset")
    monkeypatch.setattr(module.dataset, "npm_on_path", lambda: ["npm"])
    monkeypatch.setattr(module, "install", lambda npm: None)
    return module


@pytest.mark.parametrize(("code", "ends_well"), [(0, True), (1, False), (-signal.SIGKILL, False)])
def test_the_script_fails_if_a_check_fails_or_is_killed_by_a_signal(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, code: int, ends_well: bool
) -> None:
    codes = iter([0, code, 0])

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, next(codes))

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert (not ended.value.code) is ends_well

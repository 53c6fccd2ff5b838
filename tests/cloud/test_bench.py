"""The benchmark of the client runs, on canned answers and on an emulator. How fast it is, is not asserted."""

from __future__ import annotations

import pytest

from bench.cloud import main
from stratalog.testing.emulators import Emulator


def test_both_clients_are_measured_on_canned_answers(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick"])
    assert rows(capsys) == ["boto3 1", "stratalog 1", "boto3 16", "stratalog 16"]


def test_both_clients_are_measured_on_an_emulator(aws: Emulator, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--endpoint", aws.url])
    assert rows(capsys) == ["boto3 1", "stratalog 1", "boto3 16", "stratalog 16"]


def rows(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()[:2]) for line in capsys.readouterr().out.splitlines()[1:]]

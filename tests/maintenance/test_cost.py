"""Costs: billed units, dollars by a dated price list, and the measured units of operations."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from stratalog.costs.bill import Deployment, Functions, Units, bill, monthly, total, units_of
from stratalog.costs.prices import Price, load_prices
from stratalog.costs.workload import (
    Operation,
    StandingClock,
    measure_maintenance,
    measure_operations,
    measure_run,
)
from stratalog.errors import Invalid
from stratalog.ports.meter import Meter
from stratalog.store import Store

PRICES = load_prices().prices


@pytest.fixture(scope="module")
def operations() -> dict[str, Operation]:
    return {operation.name: operation for operation in measure_operations(Functions())}


def test_every_price_has_a_source_and_a_date() -> None:
    prices = [getattr(PRICES, name) for name in PRICES.__struct_fields__]
    assert all(price.source.startswith("https://aws.amazon.com/") for price in prices)
    assert all(price.looked_at.startswith("2026-") and price.unit and price.dollars > 0 for price in prices)


def test_another_list_of_prices_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    known = load_prices()
    dearer = Price(dollars=1.25, per=1e6, unit="write request units", source="2024", looked_at="2024-10-01")
    changed = msgspec.structs.replace(known.prices, dynamodb_write_units=dearer)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(known, prices=changed)))
    assert total(Units(write_units=1e6), load_prices(path).prices) == 1.25


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}'])
def test_an_incomplete_or_missing_price_list_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(text)
    with pytest.raises(Invalid):
        load_prices(tmp_path / "prices.json")
    with pytest.raises(Invalid):
        load_prices(tmp_path / "none.json")


def test_metered_operations_are_converted_to_billed_units() -> None:
    meter = Meter()
    meter.add("PutItem", "write units", 5)
    before = meter.read()
    for operation, unit, amount in (
        ("PutItem", "write units", 3),
        ("PutItem", "requests", 3),
        ("PutItem", "wasted write units", 1),
        ("Query", "read units", 0.5),
        ("PutObject", "requests", 2),
        ("PutObject", "bytes", 700),
        ("ListObjectVersions", "requests", 1),
        ("GetObject", "requests", 4),
        ("GetObject", "bytes", 900),
        ("DeleteObject", "requests", 9),
        ("ReceiveMessage", "requests", 1),
        ("ReceiveMessage", "billed requests", 4),
    ):
        meter.add(operation, unit, amount)
    assert units_of(meter.read(), before) == Units(
        write_units=3, read_units=0.5, s3_puts=3, s3_gets=4, s3_bytes=700, sqs_requests=4
    )


def test_a_million_of_each_unit_costs_the_listed_price() -> None:
    units = Units(
        write_units=1e6,
        read_units=1e6,
        s3_puts=1e6,
        s3_gets=1e6,
        sqs_requests=1e6,
        lambda_requests=1e6,
        http_requests=1e6,
    )
    assert bill(units, PRICES) == pytest.approx(
        {"DynamoDB": 0.75, "S3": 5.4, "SQS": 0.5, "Lambda": 0.2, "API Gateway": 1.0}
    )


def test_a_call_of_a_function_is_billed_by_memory_time_and_kind_of_machine() -> None:
    functions = Functions(memory_mb=1024, warm_ms=100, cold_ms=2000)
    assert functions.call() == Units(lambda_requests=1, lambda_gb_seconds=0.1)
    assert functions.call(cold=True).lambda_gb_seconds == 2
    arm, x86 = (total(functions.call(cold=True).times(1e6), PRICES, arm=arm) for arm in (True, False))
    assert (round(arm, 2), round(x86, 2)) == (26.87, 33.53)


def test_log_operations_meet_their_cost_goals(operations: dict[str, Operation]) -> None:
    assert operations["commit"].units == Units(write_units=1)
    assert operations["commit-10"].units == Units(write_units=1)
    assert operations["append"].units == Units(write_units=1)
    assert operations["record"].units == Units(write_units=1)
    for name in ("commit-10kb", "commit-100kb", "record-100kb"):
        assert msgspec.structs.replace(operations[name].units, s3_bytes=0) == Units(write_units=1, s3_puts=1)
    assert operations["roll-over"].units.write_units == 8
    assert operations["roll-over-share"].units.write_units == pytest.approx(7 / 10_000)


def test_freeing_a_segment_costs_a_write_for_each_item(operations: dict[str, Operation]) -> None:
    assert 1000 <= operations["free"].units.write_units <= 1005


def test_a_queue_message_costs_three_requests_and_fewer_in_batches(operations: dict[str, Operation]) -> None:
    named = {name: operations[name].units.sqs_requests for name in ("queue", "queue-busy", "queue-function")}
    assert named == pytest.approx({"queue": 3, "queue-busy": 2.1, "queue-function": 1.2})


def test_measured_operations_cost_the_same_in_every_run(operations: dict[str, Operation]) -> None:
    again = {operation.name: operation for operation in measure_operations(Functions())}
    assert again == operations


def test_the_units_of_a_custom_run_are_counted() -> None:
    def run(store: Store) -> None:
        plan = store.create("acme", "plan")
        plan.mutate("put", {"key": "items/1", "value": 1})

    assert measure_run(run).write_units == 12 + 1


def test_an_idle_deployment_costs_its_fixed_resources() -> None:
    deployment = Deployment(alarms=10, maintenance_runs=720, pollers=5, index_gb=1, blobs_gb=10)
    idle = monthly(deployment, Functions(), measure_maintenance(), PRICES)
    assert idle["alarms"] == pytest.approx(1)
    assert idle["queue polled by Lambda"] == pytest.approx(0.324)
    assert idle["stored in DynamoDB"] == pytest.approx(0.45)
    assert idle["stored in S3"] == pytest.approx(0.23)
    assert 0 < idle["maintenance"] < 0.05


def test_the_assumed_deployment_matches_the_aws_template() -> None:
    """The library repeats the template's figures, since an installation may lack the template."""
    template = (Path(__file__).parents[2] / "deploy" / "aws" / "template.yaml").read_text()
    assert template.count("Type: AWS::CloudWatch::Alarm\n") == Deployment().alarms
    assert "Default: rate(6 hours)" in template
    assert Deployment().maintenance_runs == 30 * 24 // 6
    memory = [
        int(size)
        for size in re.findall(r"Handler: stratalog.aws.(?:api|processor)\b.*?MemorySize: (\d+)", template, re.DOTALL)
    ]
    assert memory == [Functions().memory_mb] * 2
    assert template.count("Architectures: [arm64]") == template.count("Type: AWS::Lambda::Function\n")
    assert "PointInTimeRecoveryEnabled: true" in template


def test_the_standing_clock_advances_only_when_a_caller_sleeps() -> None:
    clock = StandingClock()
    assert clock.wall_ms() == clock.wall_ms()
    before = clock.boot_ms()
    clock.sleep(1.5)
    assert clock.boot_ms() - before == 1500
    assert clock.random_bytes(8) != clock.random_bytes(8)
    assert 0 <= clock.random() < 1

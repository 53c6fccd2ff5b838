"""The template of `deploy/aws`, read, and deployed to an emulator: a stack whose parts a test can look at and call."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from cfnlint.decode import cfn_yaml

from stratalog.testing import emulators
from stratalog.testing.aws_local import aws_environment
from stratalog.testing.emulators import KEY, SECRET, Command, Emulator, ministack_environment, program
from tests.aws.event_source import EventSource
from tests.processes import ROOT

__all__ = ["STACK", "TEMPLATE", "TOKENS", "Stack", "deployed_stack", "parameters", "resources"]

TEMPLATE = ROOT / "deploy/aws/template.yaml"
SERVICES = "dynamodb,sqs,s3,cloudformation,lambda,apigateway,iam,logs,monitoring,events,sts"
STACK = "strata"
TOKENS = {"ann": "a token of ann", "bob": "a token of bob"}
APPLICATION = f"""
from stratalog.server.application import Application
from stratalog.server.security import Principal, StaticTokens

app = Application(authenticate=StaticTokens({{token: Principal(id=name) for name, token in {TOKENS!r}.items()}}))
"""


def resources(kind: str) -> dict[str, Any]:
    """The properties of all resources of a type, by their names in the template."""
    found = cfn_yaml.load(str(TEMPLATE))["Resources"]
    return {name: one["Properties"] for name, one in found.items() if one["Type"] == kind}


def parameters() -> dict[str, Any]:
    """The parameters of the template, by name."""
    return dict(cfn_yaml.load(str(TEMPLATE))["Parameters"])


class Stack:
    """A stack that stands on an emulator."""

    def __init__(self, emulator: Emulator) -> None:
        self.url = emulator.url
        self.variables = aws_environment(emulator, emulator)
        """What leads programs on this machine to the services of the stack."""

    def client(self, service: str) -> Any:
        """A client of one of its services."""
        return boto3.client(
            service, endpoint_url=self.url, region_name="us-east-1", aws_access_key_id=KEY, aws_secret_access_key=SECRET
        )

    def create(self, **parameters: str) -> None:
        """Deploy the template, with code that holds the package and an application, and wait until it stands."""
        given = {"CodeBucket": "code", "CodeKey": "code.zip", "Application": "deployed_app:app", **parameters}
        self.client("s3").create_bucket(Bucket="code")
        self.client("s3").put_object(Bucket="code", Key="code.zip", Body=_zip())
        formation = self.client("cloudformation")
        formation.create_stack(
            StackName=STACK,
            TemplateBody=TEMPLATE.read_text(),
            Capabilities=["CAPABILITY_IAM"],
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()],
        )
        formation.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1})

    def physical(self, name: str) -> str:
        """The id of a resource, by its name in the template."""
        told = self.client("cloudformation").describe_stack_resource(StackName=STACK, LogicalResourceId=name)
        return str(told["StackResourceDetail"]["PhysicalResourceId"])

    def output(self, name: str) -> str:
        """An output of the stack."""
        (stack,) = self.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        return str({one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}[name])

    def stage_url(self, api: str, stage: str) -> str:
        """An API's stage on the emulator, which Amazon's own names do not lead to."""
        return f"{self.url}/_aws/execute-api/{self.physical(api)}/{stage}"

    def environment(self, function: str) -> dict[str, str]:
        """The variables of a function, as the template told them."""
        told = self.client("lambda").get_function_configuration(FunctionName=self.physical(function))
        return dict(told["Environment"]["Variables"])

    def configure(self, function: str, **environment: str) -> None:
        """Change variables of a function: endpoints on this machine."""
        variables = {**self.environment(function), **environment}
        self.client("lambda").update_function_configuration(
            FunctionName=self.physical(function), Environment={"Variables": variables}
        )

    def invoke(self, function: str, event: Mapping[str, Any]) -> Any:
        """What a function answers. Raises AssertionError where it fails."""
        answer = self.client("lambda").invoke(FunctionName=self.physical(function), Payload=json.dumps(event).encode())
        payload = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, payload
        return payload

    def source(self) -> EventSource:
        """The event source that was deployed. The emulator's own leaves the groups out of its events: it is ended."""
        (mapping,) = self.client("lambda").list_event_source_mappings()["EventSourceMappings"]
        self.client("lambda").update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        call = partial(self.invoke, "Processor")
        return EventSource(self.client("sqs"), self.queue_url(), call, batch_size=mapping["BatchSize"])

    def queue_url(self) -> str:
        """The queue's URL."""
        return str(self.client("sqs").get_queue_url(QueueName=f"{STACK}.fifo")["QueueUrl"])

    def policy(self, function: str) -> list[dict[str, Any]]:
        """The statements of a function's role, as they were deployed."""
        role = self.physical(f"{function}Role")
        iam = self.client("iam")
        (name,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
        document = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        return list((json.loads(document) if isinstance(document, str) else document)["Statement"])


@contextmanager
def deployed_stack(folder: Path, **parameters: str) -> Iterator[Stack]:
    """The template on an emulator of its own, which runs the functions too, by this interpreter."""

    def command(ports: Sequence[int]) -> Command:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        own = {"LAMBDA_EXECUTOR": "local", "PATH": path, "AWS_SECRET_ACCESS_KEY": SECRET}
        return Command([program("ministack")], ministack_environment(ports[0], SERVICES) | own, "/_ministack/health")

    with emulators.started("stack", 1, command, folder) as emulator:
        stack = Stack(emulator)
        stack.create(**parameters)
        yield stack


def _zip() -> bytes:
    """The package as `deploy/aws/build` packs it, without the libraries, which the interpreter has."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path in (ROOT / "src").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path):
                archive.write(path, path.relative_to(ROOT / "src"))
        archive.writestr("deployed_app.py", APPLICATION)
    return written.getvalue()

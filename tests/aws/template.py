"""Reads the template of `deploy/aws`, and deploys it to an emulator as a stack that tests can inspect and call."""

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
    """Return the properties of all resources of a type, by their names in the template."""
    defined = cfn_yaml.load(str(TEMPLATE))["Resources"]
    return {name: resource["Properties"] for name, resource in defined.items() if resource["Type"] == kind}


def parameters() -> dict[str, Any]:
    """Return the parameters of the template, by name."""
    return dict(cfn_yaml.load(str(TEMPLATE))["Parameters"])


class Stack:
    """A stack on an emulator."""

    def __init__(self, emulator: Emulator) -> None:
        self.url = emulator.url
        self.variables = aws_environment(emulator, emulator)
        """The environment variables with which programs on this machine reach the stack's services."""

    def client(self, service: str) -> Any:
        """Return a boto3 client of one of the stack's services."""
        return boto3.client(
            service, endpoint_url=self.url, region_name="us-east-1", aws_access_key_id=KEY, aws_secret_access_key=SECRET
        )

    def create(self, **parameters: str) -> None:
        """Deploy the template with the package and an application, and wait until the stack is complete."""
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
        """Return the physical id of a resource, by its name in the template."""
        answer = self.client("cloudformation").describe_stack_resource(StackName=STACK, LogicalResourceId=name)
        return str(answer["StackResourceDetail"]["PhysicalResourceId"])

    def output(self, name: str) -> str:
        """Return an output of the stack."""
        (stack,) = self.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        return str({output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}[name])

    def stage_url(self, api: str, stage: str) -> str:
        """Return the URL of an API's stage on the emulator. Amazon's own host names do not reach the emulator."""
        return f"{self.url}/_aws/execute-api/{self.physical(api)}/{stage}"

    def environment(self, function: str) -> dict[str, str]:
        """Return the environment variables of a deployed function."""
        answer = self.client("lambda").get_function_configuration(FunctionName=self.physical(function))
        return dict(answer["Environment"]["Variables"])

    def configure(self, function: str, **environment: str) -> None:
        """Change environment variables of a function, such as endpoints."""
        variables = {**self.environment(function), **environment}
        self.client("lambda").update_function_configuration(
            FunctionName=self.physical(function), Environment={"Variables": variables}
        )

    def invoke(self, function: str, event: Mapping[str, Any]) -> Any:
        """Call a function and return its result. Raises AssertionError if the call fails."""
        answer = self.client("lambda").invoke(FunctionName=self.physical(function), Payload=json.dumps(event).encode())
        payload = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, payload
        return payload

    def source(self) -> EventSource:
        """Return an event source with the deployed settings, and disable the emulator's own event source.

        The events of the emulator's own event source lack the message groups.
        """
        (mapping,) = self.client("lambda").list_event_source_mappings()["EventSourceMappings"]
        self.client("lambda").update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        call = partial(self.invoke, "Processor")
        return EventSource(self.client("sqs"), self.queue_url(), call, batch_size=mapping["BatchSize"])

    def queue_url(self) -> str:
        """Return the queue's URL."""
        return str(self.client("sqs").get_queue_url(QueueName=f"{STACK}.fifo")["QueueUrl"])

    def policy(self, function: str) -> list[dict[str, Any]]:
        """Return the statements of a function's role, as deployed."""
        role = self.physical(f"{function}Role")
        iam = self.client("iam")
        (name,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
        document = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        return list((json.loads(document) if isinstance(document, str) else document)["Statement"])


@contextmanager
def deployed_stack(folder: Path, **parameters: str) -> Iterator[Stack]:
    """Deploy the template to a new emulator. The emulator also runs the functions, with this Python interpreter."""

    def command(ports: Sequence[int]) -> Command:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        own = {"LAMBDA_EXECUTOR": "local", "PATH": path, "AWS_SECRET_ACCESS_KEY": SECRET}
        return Command([program("ministack")], ministack_environment(ports[0], SERVICES) | own, "/_ministack/health")

    with emulators.started("stack", 1, command, folder) as emulator:
        stack = Stack(emulator)
        stack.create(**parameters)
        yield stack


def _zip() -> bytes:
    """Return a zip as `deploy/aws/build` makes it, but without the libraries that the interpreter already has."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path in (ROOT / "src").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path):
                archive.write(path, path.relative_to(ROOT / "src"))
        archive.writestr("deployed_app.py", APPLICATION)
    return written.getvalue()

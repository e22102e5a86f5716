"""The API does what its OpenAPI document says: schemathesis makes requests from it and checks each answer."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
)

from hedgerow.web.dashboard import openapi
from hedgerow.web.dashboard.pages import PAGES
from hedgerow.web.dashboard.resources import RESOURCES
from web.dashboard.desk import Desk

EXAMPLES = 12
# 422: the request is right, but a text in it is no address, no TOML or no setting. No pattern says that.
CONFIG = SchemathesisConfig.from_dict({
    "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "403", "404", "409", "422"]}}
})  # fmt: skip

CHECKS = (
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
    positive_data_acceptance, negative_data_rejection,
)  # fmt: skip


class _FromHere:
    """The admin listener, asked by its own address from this machine."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
            return
        headers = [pair for pair in scope["headers"] if pair[0] != b"host"]
        own = {"headers": [*headers, (b"host", b"127.0.0.1:9000")], "client": ("127.0.0.1", 5000)}
        await self._app({**scope, **own}, receive, send)


OPERATIONS = [
    (path, method) for path, methods in openapi.document((*PAGES, *RESOURCES))["paths"].items() for method in methods
]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    desk = Desk(tmp_path_factory.mktemp("state"), "")
    desk.block("192.0.2.1")
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", _FromHere(desk._admin), config=CONFIG)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: f"{mode.value} data")
@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda part: part)
def test_every_answer_is_one_that_the_document_names(schema: Any, path: str, method: str, mode: GenerationMode) -> None:
    operation = schema[path][method]
    if mode is GenerationMode.NEGATIVE and method == "get" and not operation.definition.raw["parameters"]:
        pytest.skip("without parameters nothing can be wrong")

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=(Phase.generate,),
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.call_and_validate(checks=list(CHECKS))

    ask()

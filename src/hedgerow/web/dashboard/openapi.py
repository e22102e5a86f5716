"""The OpenAPI document of the API, made from the types of the pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hedgerow import __version__
from hedgerow.web.dashboard.page import Action, Done, Page
from hedgerow.web.dashboard.tables import TablePage

API = "/api/v1"


class Error(msgspec.Struct, frozen=True):
    """What is wrong, in a sentence."""

    error: str


def document(pages: Sequence[Page]) -> dict[str, Any]:
    """Return the OpenAPI document."""
    actions = [action for page in pages for action in page.actions]
    types = [Error, Done, *(page.result for page in pages), *(action.request for action in actions)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for page in pages:
        paths[f"{API}/{page.name}"] = {"get": _read(page, schema_of)}
        if page.document is not None:
            paths[f"{API}/{page.name}/document/{{file}}"] = {"get": _read_document(page, schema_of)}
        for action in page.actions:
            paths[f"{API}/{page.name}/{action.name}"] = {"post": _change(page, action, schema_of)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hedgerow", "version": __version__, "description": "Everything that the dashboard shows."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _read(page: Page, schema_of: dict[int, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": schema_of[id(page.result)]}}
    if is_table(page):
        content["text/csv"] = {"schema": {"type": "string"}}
    return {
        "operationId": f"get_{_identifier(page.name)}",
        "summary": page.summary,
        "parameters": _parameters(page),
        "responses": {
            "200": {"description": "Found.", "content": content},
            **_errors(schema_of, 400, 401, 403, 404, 422, 503),
        },
    }


def _read_document(page: Page, schema_of: dict[int, Any]) -> dict[str, Any]:
    file = {
        "name": "file",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": page.document_names},
    }
    return {
        "operationId": f"get_{_identifier(page.name)}_document",
        "summary": f"A document of {page.title}, as a page of its own.",
        "parameters": [file],
        "responses": {
            "200": {"description": "Found.", "content": {"text/html": {"schema": {"type": "string"}}}},
            **_errors(schema_of, 401, 403, 404, 503),
        },
    }


def _parameters(page: Page) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([page.parameters])
    (own,) = [one for one in components.values() if one.get("title") == page.parameters.__name__]
    required = set(own.get("required", ()))
    schemas: dict[str, Any] = own["properties"]
    if is_table(page):
        names = [column.name for column in page.columns if column.is_sortable]
        schemas["sort"] = {**schemas["sort"], "enum": ["", *names, *(f"-{name}" for name in names)]}
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in schemas.items()
    ]


def _change(page: Page, action: Action, schema_of: dict[int, Any]) -> dict[str, Any]:
    return {
        "operationId": f"{_identifier(page.name)}_{_identifier(action.name)}",
        "summary": action.summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema_of[id(action.request)]}}},
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {"schema": schema_of[id(Done)]}}},
            **_errors(schema_of, 400, 401, 403, 404, 409, 413, 415, 422, 503),
        },
    }


def _errors(schema_of: dict[int, Any], *statuses: int) -> dict[str, Any]:
    content = {"application/json": {"schema": schema_of[id(Error)]}}
    return {str(status): {"description": "Not done; the text says why.", "content": content} for status in statuses}


def _identifier(name: str) -> str:
    return name.replace("-", "_")


def is_table(page: Page) -> bool:
    return issubclass(getattr(page.result, "__origin__", page.result), TablePage)

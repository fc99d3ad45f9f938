"""The JSON Schema of what each command prints with `--json`, which `workbench list schemas` prints.

The number of a form, as in `patch/1`, goes up with every change of it, such as an added field.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from workbench.benchmark.results import Results
from workbench.cli import json_forms as forms

DIALECT = "https://json-schema.org/draft/2020-12/schema"

SCHEMAS: dict[str, type[BaseModel]] = {
    "bench run": Results,
    "bench score": forms.Marks,
    "check": forms.Checks,
    "circuit": forms.Circuit,
    "generate": forms.Generated,
    "heads": forms.Heads,
    "inspect": forms.Inspected,
    "patch": forms.Patched,
    "probe": forms.Probed,
    "runs": forms.Runs,
    "study run": forms.Study,
    "table": forms.Table,
}
"""Command -> the form of what it prints with `--json`."""


class _Generate(GenerateJsonSchema):
    """JSON has no NaN, and `as_json` writes null; titles that repeat a field's name are left out."""

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        number = super().float_schema(schema)
        return number if schema.get("allow_inf_nan") is False else {**number, "type": ["number", "null"]}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        return inner if inner.get("type") == ["number", "null"] else super().nullable_schema(schema)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])  # what is printed has its values: a default would be of no use

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema_of(command: str) -> dict[str, Any]:
    """The JSON Schema of what a command, one of `SCHEMAS`, prints with `--json`."""
    model = SCHEMAS[command]
    made = model.model_json_schema(mode="serialization", schema_generator=_Generate)
    name = made["properties"]["format"]["const"]
    made["required"] = sorted({*made.get("required", ()), "format"})
    return {"$schema": DIALECT, "$id": f"urn:interp-workbench:{name}", **made, "title": f"workbench {command} --json"}

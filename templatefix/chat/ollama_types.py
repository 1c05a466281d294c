"""The Go types that Ollama's templates see: names, fields and orders as read in its source as of 2026-08-21."""

from __future__ import annotations

from typing import Any, Final

from templatefix.gotemplate.values import ANY, INT, SLICE_OF_ANY, SLICE_OF_STRING, STRING, UINT8, Field, GoType, Struct


def typescript_type(value: Any) -> str:
    """What Ollama's `toTypeScriptType` gives for a tool's property; `any` for everything else."""
    if not isinstance(value, Struct) or value.type is not PROPERTY:
        return "any"
    fields = value.fields
    if len(fields["AnyOf"]):
        return " | ".join(typescript_type(member) for member in fields["AnyOf"].items)
    return " | ".join(_TYPESCRIPT.get(name, "any") for name in fields["Type"].items) or "any"


_TYPESCRIPT: Final = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "array": "any[]",
    "object": "Record<string, any>",
    "null": "null",
}

PROPERTY_TYPE: Final = GoType.slice(STRING, "api.PropertyType", "joined")
PROPERTIES_POINTER: Final = GoType("*api.ToolPropertiesMap", "ptr")
SLICE_OF_PROPERTY: Final = GoType("[]api.ToolProperty", "slice", elem=GoType("api.ToolProperty", "struct"))
PROPERTY: Final = GoType.struct(
    "api.ToolProperty",
    (
        Field("AnyOf", SLICE_OF_PROPERTY, "anyOf", omitempty=True),
        Field("Type", PROPERTY_TYPE, "type", omitempty=True),
        Field("Items", ANY, "items", omitempty=True),
        Field("Description", STRING, "description", omitempty=True),
        Field("Enum", SLICE_OF_ANY, "enum", omitempty=True),
        Field("Properties", PROPERTIES_POINTER, "properties", omitempty=True),
        Field("Required", SLICE_OF_STRING, "required", omitempty=True),
    ),
    methods={"ToTypeScriptType": typescript_type},
)
PROPERTIES: Final = GoType.map(PROPERTY, "template.templateProperties", "json")
PARAMETERS: Final = GoType.struct(
    "template.templateToolFunctionParameters",
    (
        Field("Type", STRING, "type"),
        Field("Defs", ANY, "$defs", omitempty=True),
        Field("Items", ANY, "items", omitempty=True),
        Field("Required", SLICE_OF_STRING, "required", omitempty=True),
        Field("Properties", PROPERTIES, "properties"),
    ),
)
FUNCTION: Final = GoType.struct(
    "template.templateToolFunction",
    (
        Field("Name", STRING, "name"),
        Field("Description", STRING, "description"),
        Field("Parameters", PARAMETERS, "parameters"),
    ),
)
TOOL: Final = GoType.struct(
    "template.templateTool",
    (
        Field("Type", STRING, "type"),
        Field("Items", ANY, "items", omitempty=True),
        Field("Function", FUNCTION, "function"),
    ),
    "json",
)
TOOLS: Final = GoType.slice(TOOL, "template.templateTools", "json")
ARGUMENTS: Final = GoType.map(ANY, "template.templateArgs", "json")
CALL_FUNCTION: Final = GoType.struct(
    "template.templateToolCallFunction",
    (Field("Index", INT, "Index"), Field("Name", STRING, "Name"), Field("Arguments", ARGUMENTS, "Arguments")),
)
CALL: Final = GoType.struct(
    "template.templateToolCall", (Field("ID", STRING, "ID"), Field("Function", CALL_FUNCTION, "Function"))
)
CALLS: Final = GoType.slice(CALL)
IMAGE: Final = GoType.slice(UINT8, "api.ImageData")
IMAGES: Final = GoType.slice(IMAGE)
MESSAGE: Final = GoType.pointer(
    GoType.struct(
        "template.templateMessage",
        (
            Field("Role", STRING, "Role"),
            Field("Content", STRING, "Content"),
            Field("Thinking", STRING, "Thinking"),
            Field("Images", IMAGES, "Images"),
            Field("ToolCalls", CALLS, "ToolCalls"),
            Field("ToolName", STRING, "ToolName"),
            Field("ToolCallID", STRING, "ToolCallID"),
        ),
    )
)
MESSAGES: Final = GoType.slice(MESSAGE)

"""The JSON Schema of machine files, from the loader's own tables: editors complete keys and underline faults with it.

`tilewright isa schema` prints it; a test holds the one beside the shipped machines to it. What the schema accepts may
still be refused by the loader, which also knows sizes, ranges and names; what the loader accepts, the schema accepts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, assert_never

from tilewright.isa.errors import IsaError
from tilewright.isa.files.expression import MAX_EXPRESSION_CHARACTERS
from tilewright.isa.files.keys import EXTENDS, EXTENDS_ABOUT, MACHINE_KEYS, QUOTED_NUMBER
from tilewright.isa.files.loader import shipped_machines
from tilewright.isa.key_kinds import (
    NAME,
    Either,
    EngineKind,
    Instances,
    Key,
    KeyMapping,
    Kind,
    Names,
    TypeName,
    WholeNumber,
    Word,
    Words,
)
from tilewright.isa.language.numeric import FLOAT_TYPES, MAX_INTEGER_BITS, parse_integer_type

Schema = dict[str, Any]

_TYPE: Schema = {"$ref": "#/definitions/type"}
_EXPRESSION: Schema = {"$ref": "#/definitions/expression"}


def machine_schema() -> Schema:
    """The schema (draft 7) of a machine file: complete, or an overlay when it says `extends`."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Tilewright machine",
        "description": "An accelerator: its array, memories, engines and instructions.",
        "type": "object",
        "if": {"required": [EXTENDS]},
        "then": {"$ref": "#/definitions/overlay"},
        "else": {"$ref": "#/definitions/machine"},
        "definitions": {
            "machine": _file(is_overlay=False),
            "overlay": _file(is_overlay=True),
            "type": {"anyOf": [{"enum": _type_names()}, {"type": "string", "pattern": f"^{_NO_TYPE}{NAME}$"}]},
            "expression": {
                "type": "string",
                "pattern": f"^(?!{QUOTED_NUMBER}$)\\s*\\S[\\s\\S]*$",
                "maxLength": MAX_EXPRESSION_CHARACTERS,
            },
        },
    }


def schema_text() -> str:
    """The schema as the file that ships."""
    return json.dumps(machine_schema(), indent=1, ensure_ascii=False) + "\n"


def _file(is_overlay: bool) -> Schema:
    schema = _section(KeyMapping(MACHINE_KEYS), is_overlay)
    extends = {"description": EXTENDS_ABOUT, "type": "string", "examples": list(shipped_machines())}
    schema["properties"] = {EXTENDS: extends, **schema["properties"]}
    return schema


_NO_TYPE = "(?!u?int[0-9]+$)"
"""Of a pattern, in front of a name: one that is no type."""


def _type_names() -> list[str]:
    """Every name that the loader reads as a type, signed integers first."""
    return [
        name
        for prefix in ("int", "uint")
        for name in (f"{prefix}{bits}" for bits in range(1, MAX_INTEGER_BITS + 1))
        if _is_type(name)
    ] + list(FLOAT_TYPES)


def _is_type(name: str) -> bool:
    try:
        parse_integer_type(name)
    except IsaError:
        return False
    return True


# -- one kind each -----------------------------------------------------------------------------------------------------


def _schema(kind: Kind, is_overlay: bool) -> Schema:
    match kind:
        case WholeNumber():
            return {"anyOf": [_integer(kind), _EXPRESSION]}
        case Word():
            return _word(kind)
        case Words():
            return _words(kind)
        case TypeName():
            return _TYPE
        case KeyMapping():
            return _section(kind, is_overlay)
        case Names():
            return _names(kind, is_overlay)
        case Instances():
            return _instances(kind, is_overlay)
        case Either(kinds=kinds):
            return {"anyOf": [_schema(choice, is_overlay) for choice in kinds]}
        case _:
            assert_never(kind)


def _integer(kind: WholeNumber) -> Schema:
    if kind.is_power_of_two:
        return {"enum": [1 << bit for bit in range(kind.high.bit_length()) if kind.low <= 1 << bit <= kind.high]}
    return {"type": "integer", "minimum": kind.low, "maximum": kind.high}


def _word(kind: Word) -> Schema:
    schema: Schema = {"type": "string"}
    if kind.choices:
        schema["enum"] = list(kind.choices)
    if kind.pattern:
        schema["pattern"] = f"^(?:{kind.pattern})$"
    if kind.examples:
        schema["examples"] = list(kind.examples)
    return schema


def _words(kind: Words) -> Schema:
    item: Schema = {"enum": list(kind.choices)} if kind.choices else _name(NAME, kind.excluded)
    schema: Schema = {"type": "array", "uniqueItems": True, "items": item}
    if kind.is_all:
        schema.update(minItems=len(kind.choices), maxItems=len(kind.choices))
    return schema


def _name(pattern: str, excluded: tuple[str, ...]) -> Schema:
    return {"type": "string", "pattern": _name_pattern(pattern, excluded)}


def _name_pattern(pattern: str, excluded: tuple[str, ...]) -> str:
    return f"^(?!(?:{'|'.join(excluded)})$)(?:{pattern})$" if excluded else f"^(?:{pattern})$"


def _section(kind: KeyMapping, is_overlay: bool) -> Schema:
    properties = {name: _key(key, is_overlay) for name, key in kind.keys.items()}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    needed = [name for name, key in kind.keys.items() if key.is_needed]
    if needed and not is_overlay:
        schema["required"] = needed
    if kind.exactly_one_of and is_overlay:
        schema["not"] = _all_given(kind.exactly_one_of)
    elif kind.exactly_one_of:
        schema["oneOf"] = [{"required": [name]} for name in kind.exactly_one_of]
    return schema


def _all_given(names: tuple[str, ...]) -> Schema:
    """All of the keys are there and none of them is null, which would remove it."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}


def _key(key: Key, is_overlay: bool) -> Schema:
    return {"description": key.about, **_removable(_schema(key.kind, is_overlay), is_overlay)}


def _removable(schema: Mapping[str, Any], is_overlay: bool) -> Schema:
    """In an overlay, null removes a key."""
    if not is_overlay:
        return {"allOf": [schema]} if "$ref" in schema else dict(schema)
    null = {"type": "null"}
    if set(schema) == {"anyOf"}:
        return {"anyOf": [*schema["anyOf"], null]}
    return {"anyOf": [schema, null]}


def _names(kind: Names, is_overlay: bool) -> Schema:
    schema: Schema = {
        "type": "object",
        "patternProperties": {
            _name_pattern(kind.pattern, kind.excluded): _removable(_schema(kind.values, is_overlay), is_overlay)
        },
        "additionalProperties": False,
    }
    if kind.least and not is_overlay:
        schema["minProperties"] = kind.least
    if kind.most is not None and not is_overlay:
        schema["maxProperties"] = kind.most
    return schema


def _instances(kind: Instances, is_overlay: bool) -> Schema:
    """Engines by name: of a usual name, it may leave its template out; in an overlay, the file below may say it."""
    saying = [_engine(of, section, is_overlay, says=True) for of, section in kind.sections.items()]
    plain = {of: _engine(of, section, is_overlay, says=False) for of, section in kind.sections.items()}
    usual = {name: {"anyOf": [plain[of], *saying]} for name, of in kind.usual.items()}
    other = {"anyOf": [*plain.values(), *saying] if is_overlay else saying}
    return {
        "type": "object",
        "properties": {name: _removable(schema, is_overlay) for name, schema in usual.items()},
        "patternProperties": {_name_pattern(NAME, tuple(kind.usual)): _removable(other, is_overlay)},
        "additionalProperties": False,
    }


def _engine(of: EngineKind, section: KeyMapping, is_overlay: bool, says: bool) -> Schema:
    """An engine of a kind, which says its template or does not."""
    schema = _section(section, is_overlay)
    if says:
        schema["properties"]["template"] = {**schema["properties"]["template"], "enum": [of.template.value]}
        return {**schema, "required": ["template", *schema.get("required", ())]}
    del schema["properties"]["template"]
    return schema

"""Judges from outside: Kubernetes' own strict schemas, and projects' custom resources.

In: documents of a render. Out: their faults. Invariant: a kind that no schema is known for is a fault.
"""

import functools
import json
from pathlib import Path

import jsonschema
from kubernetes_validate import utils
from referencing import Registry, Resource

SCHEMAS = Path(__file__).parent / "schemas"
_FOLDER = "kubernetes-json-schema/v1.37.0-local-strict"


@functools.cache
def _registry():
    return Resource.from_contents(utils.schema_contents(f"{_FOLDER}/_definitions.json", "1.37")) @ Registry()


@functools.cache
def _validator(api_version, kind):
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(path.read_text())
        named = schema["properties"]
        if (named["apiVersion"]["const"], named["kind"]["const"]) == (api_version, kind):
            break
    else:
        group = api_version.replace("/", "-").split(".")[0] + (
            "-" + api_version.split("/")[1] if "." in api_version else ""
        )
        schema = utils.schema_contents(f"{_FOLDER}/{kind.lower()}-{group}.json", "1.37")
    return jsonschema.validators.Draft202012Validator(schema, registry=_registry())


def faults(document):
    """What is wrong with one document, as sentences."""
    found = _validator(document["apiVersion"], document["kind"]).iter_errors(document)
    return [
        f"{document['kind']} {document['metadata']['name']}: {error.json_path}: {error.message[:200]}"
        for error in found
    ]

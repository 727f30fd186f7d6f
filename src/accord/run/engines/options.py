"""An engine's own options and weights, out of its EngineSpec.

In: an EngineSpec. Out: a typed struct of options, a folder of weights.
Invariant: an unknown option, or a value that isn't of its type, is BadInput and names the stage.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from accord.run.ports import EngineSpec
from accord.terms.errors import BadInput, BrokenEdge

Options = TypeVar("Options", bound=msgspec.Struct)


def read_options(spec: EngineSpec, kind: type[Options]) -> Options:
    """The options as `kind`, a struct that forbids unknown fields."""
    try:
        return msgspec.convert(dict(spec.options), kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(field.name for field in msgspec.structs.fields(kind)) or "none at all"
        raise BadInput(
            field=f"stages.{spec.stage}.options",
            value=dict(spec.options),
            problem=str(error),
            fix=f"engine {spec.engine} has these options: {known}",
        ) from error


def asset_folder(spec: EngineSpec, asset: str) -> Path:
    """Where the weights of package `asset` lie; BrokenEdge if the spec doesn't say."""
    for name, folder in spec.assets:
        if name == asset:
            return Path(folder)
    raise BrokenEdge(f"stages.{spec.stage}: engine {spec.engine} needs the weights {asset}; fetch them first")

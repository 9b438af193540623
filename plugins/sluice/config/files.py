"""Finds and reads pipeline files, and says what is wrong with one in a line."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sluice.config.airflow import AirflowSettings
from sluice.config.mistakes import below, first_mistake
from sluice.config.pipeline import Pipeline
from sluice.config.types import Section
from sluice.config.yaml_text import (
    VARIABLE,
    NotYaml,
    assigns_secret,
    expand,
    load,
    names_secret,
    nodes,
    takes_secret,
)
from sluice.errors import WrongPipeline, WrongUse
from sluice.runtime import PROJECT

FOLDER = PROJECT / "include" / "pipelines"
PIPELINES = "SLUICE_PIPELINES"
SCHEMA = "pipeline.schema.json"
_Model = TypeVar("_Model", bound=BaseModel)


def pipelines_folder(named: Path | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder of pipeline files: SLUICE_PIPELINES, else the one that a DAG file `named`, else
    include/pipelines. Relative ones count from the project's folder."""
    return PROJECT / (environment.get(PIPELINES) or named or FOLDER)


def pipeline_names(folder: Path | None = None) -> list[str]:
    folder = folder or pipelines_folder()
    paths = folder.glob("*.yaml") if os.path.isdir(folder) else ()
    return sorted(path.stem for path in paths if path.stem != DEFAULTS)


def find(name: str, config: Path | None = None, named: Path | None = None) -> Path:
    """The file of pipeline `name` in the folder of pipelines, which a DAG file may have `named`; `config` is
    a file elsewhere. Raises WrongUse."""
    folder = pipelines_folder(named)
    path = config or folder / f"{name}.yaml"
    if os.path.lexists(path):  # also a pipe, or a link to nothing: reading says what it is
        return path
    names = ", ".join(pipeline_names(folder)) or "none"
    raise WrongUse(
        f"no pipeline file {path}; there are: {names}; `--config FILE` names one elsewhere, "
        f"{PIPELINES} another folder"
    )


def read(
    path: Path,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
    by_option: bool = False,
) -> Pipeline:
    """Returns the pipeline in `path`, with the folder's defaults; its name is the file's stem. Paths in it
    count from `folder`, else from the file's own. `by_option`: a user named it with `--config`, so its
    commands do, too. Raises WrongPipeline (file, key, expected)."""
    content = _mapping(path, load, "a mapping with kafka, event, lake and tables")
    if "name" in content:
        raise WrongPipeline(str(path), "name", f"a pipeline is named by its file: here {path.stem!r}")
    defaults = defaults_file(path)
    common = _defaults(defaults, environment)
    settings = merged(
        expand(common, environment, defaults, FolderDefaults),
        expand(content, environment, path, Pipeline),
    )
    found_by_name = path.resolve() == (pipelines_folder() / f"{path.stem}.yaml").resolve()
    elsewhere = path.absolute() if by_option or not found_by_name else None
    context = {"folder": folder or path.resolve().parent, "file": path, "config": elsewhere}
    files = {path: content, defaults: common}
    return _checked(Pipeline, {"name": path.stem, **settings}, files, context)


def sound_pipelines() -> Iterator[Pipeline]:
    """Yields the pipelines of the folder whose files can be read."""
    folder = pipelines_folder()
    for name in pipeline_names(folder):
        with suppress(WrongPipeline, OSError):
            yield read(folder / f"{name}.yaml")


def _mapping(path: Path, read_content: Callable[[Path], Any], expected: str) -> dict[str, Any]:
    """Returns the content of a file. Raises WrongPipeline."""
    try:
        content = read_content(path)
    except OSError as error:
        raise WrongPipeline(str(path), "(file)", f"cannot be read: {error.strerror}") from error
    except NotYaml as error:
        raise WrongPipeline(str(path), "(file)", str(error), False, error.line, error.column) from error
    if not isinstance(content, dict):
        raise WrongPipeline(str(path), "(file)", f"expected {expected}")
    return content


def _defaults(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Returns the content of the folder's defaults, sound by itself. Raises WrongPipeline that names their
    file."""
    misnamed = path.with_suffix(".yml")
    if misnamed.is_file():
        raise WrongPipeline(str(misnamed), "(file)", f"is not read: call it {path.name}")
    content = _mapping(path, load_defaults, "a mapping with airflow")
    _checked(FolderDefaults, expand(content, environment, path, FolderDefaults), {path: content}, {})
    return content


def _checked(
    model: type[_Model], settings: Mapping[str, Any], files: Mapping[Path, Any], context: Mapping[str, Any]
) -> _Model:
    """`files` are the contents of those that `given` is of, without their variables. Raises WrongPipeline
    that names the first file in which the mistake stands."""
    try:
        return model.model_validate(settings, context=context)
    except ValidationError as error:
        mistake = first_mistake(model, error)
        path = next((file for file in files if _has(files[file], mistake.place)), next(iter(files)))
        content = files[path]
        secret, at = _from_environment(content, mistake.place), nodes(path).line_and_column(mistake.place)
        raise WrongPipeline(str(path), mistake.key or "(file)", mistake.expected, secret, *at) from error


def _has(content: Any, place: tuple[int | str, ...]) -> bool:
    """Returns whether something stands at `place`."""
    for part in place:
        try:
            content = content[part]
        except (LookupError, TypeError):
            return False
    return True


def _from_environment(content: Any, place: tuple[int | str, ...]) -> bool:
    """Returns whether a variable stands at `place`, or anywhere below the last part of it that is there."""
    for part in place:
        try:
            content = content[part]
        except (LookupError, TypeError):
            break
    return VARIABLE.search(str(content)) is not None


# `_defaults.yaml` beside the pipeline files: what a platform sets for all of them.
#
# The file's `airflow` holds for each pipeline of its folder. A key of the pipeline's own file goes before it,
# and so does a key of a step before the same key of that step.
DEFAULTS = "_defaults"
SECTION = "airflow"


class FolderDefaults(Section):
    airflow: AirflowSettings = AirflowSettings()
    """What a platform sets of the DAGs of all pipelines of the folder. Example: `{owner: data-platform}`"""


def defaults_file(path: Path) -> Path:
    """Returns the file of defaults beside a pipeline file; it need not be there."""
    return path.with_name(f"{DEFAULTS}.yaml")


def load_defaults(path: Path) -> Any:
    """Returns the content of a file of defaults, an empty mapping where there is none. Raises OSError and
    NotYaml.

    It is read once for the many pipelines of a folder, and again when it has changed.
    """
    try:
        stat = path.stat()
    except FileNotFoundError:
        if os.path.islink(path):
            raise OSError(errno.ENOENT, "it is a link to nothing", str(path)) from None
        return {}
    return _content(path, (stat.st_ino, stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=16)
def _content(path: Path, _stamp: tuple[int, int, int]) -> Any:
    return load(path)


def merged(defaults: Mapping[str, Any], file_content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a pipeline file with what the folder's defaults add to its `airflow`."""
    common, own_section = defaults.get(SECTION), file_content.get(SECTION)
    if common is None or not isinstance(own_section, dict | None):
        return dict(file_content)  # the reader refuses what is no mapping
    return {**file_content, SECTION: _merged(common, own_section or {})}


def _merged(common: Mapping[str, Any], own_section: Mapping[str, Any]) -> dict[str, Any]:
    both = {**common, **own_section}
    common_steps, own_steps = common.get("steps"), own_section.get("steps")
    if isinstance(common_steps, dict) and isinstance(own_steps, dict):
        both["steps"] = {
            name: _step(common_steps.get(name), own_steps.get(name)) for name in {**common_steps, **own_steps}
        }
    return both


def _step(common_step: Any, own_step: Any) -> Any:
    both_mappings = isinstance(common_step, dict) and isinstance(own_step, dict)
    return {**common_step, **own_step} if both_mappings else common_step if own_step is None else own_step


# What a pipeline file says, as a text that may be kept and shown: no comment, no secret, no environment.
HIDDEN = "(hidden)"
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")


def file_text(path: Path) -> str:
    """Returns the file at `path` with what the folder's defaults add to it, as YAML of one form. Variables
    stay as they are written: `${NAME}`. Raises OSError, NotYaml."""
    return text_of(merged(load_defaults(defaults_file(path)), load(path)))


def text_of(content: Any) -> str:
    """Returns the content as YAML without what may be a secret. Pure."""
    text: str = yaml.safe_dump(
        _shown(content, Pipeline), sort_keys=False, allow_unicode=True, width=100, default_flow_style=False
    )
    return text


def _shown(value: Any, hint: Any, place: tuple[str, ...] = ()) -> Any:
    """Returns the value that stands where the model has `hint`."""
    if isinstance(value, dict):
        return {k: _shown(v, below(hint, str(k)), (*place, str(k))) for k, v in value.items()}
    if isinstance(value, list):
        return [_shown(item, below(hint, None), place) for item in value]
    if (isinstance(value, str | bytes) and takes_secret(hint)) or _of_spark(place, value):
        return HIDDEN
    return _LOGIN.sub(f"{HIDDEN}@", value) if isinstance(value, str) else value


def _of_spark(place: tuple[str, ...], value: Any) -> bool:
    """Settings of Spark go by their names, as they do where the file is read."""
    return place[:1] == ("spark",) and (names_secret(place[-1]) or assigns_secret(str(value)))

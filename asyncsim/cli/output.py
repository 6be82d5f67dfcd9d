"""What every command that computes something says of its results: where they go, as JSON or as tables."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


class Folder(click.ParamType):
    """The name of a folder, which need not exist."""

    name = "folder"

    def __init__(self, default: str) -> None:
        self.default = default

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, or a usage error."""
        if not value.strip():
            raise click.UsageError(f"`--out` must name a folder; got {value!r}. Leave it out for {self.default}.", ctx)
        if reason := self._obstacle(value):
            raise click.UsageError(f"`--out` must name a folder; {value!r} {reason}. Choose another name.", ctx)
        return value

    @staticmethod
    def _obstacle(value: str) -> str:
        """Why there can be no such folder, as far as that can be seen before anything is computed."""
        for place in (Path(value), *Path(value).parents):
            try:
                os.lstat(place)
            except (FileNotFoundError, NotADirectoryError):
                continue  # to the folder above
            except OSError as error:
                return f"cannot be one: {error.strerror}"
            except ValueError:
                return "holds a NUL byte"
            if place.is_dir():
                break
            return "is a file" if place == Path(value) else f"would be in the file {str(place)!r}"
        return ""


def out_option(default: str, help: str = "Folder for the results.") -> click.Option:
    """The flag `--out`, whose value is None where it is not given."""
    return click.Option(["--out"], type=Folder(default), metavar="DIR", help=f"{help} [{default}]")


def json_option(what: str) -> click.Option:
    """The flag `--json`, passed on as `as_json`."""
    return click.Option(["--json", "as_json"], is_flag=True, help=f"Print {what} as one JSON object.")


def print_results(results: Any, as_json: bool, show: Callable[[], None]) -> None:
    """One JSON object on standard output and nothing else, or what a person reads."""
    if as_json:
        click.echo(json.dumps(results, allow_nan=False))
    else:
        show()

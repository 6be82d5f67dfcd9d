"""Commands that suggest what was meant: the base of every command of `asyncsim`."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from asyncsim.checks import nearest

CONTEXT = {"help_option_names": ["-h", "--help"], "token_normalize_func": lambda token: token.replace("_", "-")}


class Command(click.Command):
    """A command that suggests a flag for one that it does not have, and takes `-h` and `--learning_rate` as well."""

    def __init__(self, *arguments: Any, context_settings: Mapping[str, Any] | None = None, **settings: Any) -> None:
        super().__init__(*arguments, context_settings={**CONTEXT, **(context_settings or {})}, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What click does, with better suggestions."""
        words = list(args)  # click consumes the list
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            # Of "-lr", click names only "-l".
            word = next((word for word in words if word.startswith(error.option_name)), error.option_name)
            option = word.partition("=")[0]
            visible = [param for param in self.get_params(ctx) if isinstance(param, click.Option) and not param.hidden]
            flags = [flag for param in visible for flag in param.opts if flag.startswith("--")]
            raise click.UsageError(f"No such option {option!r}.{suggestion(meant_flag(option, flags))}", ctx) from None
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click leaves it out where a flag lacks its value
            raise


class Group(click.Group):
    """A group that suggests a command for one that it does not have.

    Args:
        files: Suffix of a file -> the command that was forgotten before its name.
        settings: Those of `click.Group`.
    """

    command_class = Command

    def __init__(self, *arguments: Any, files: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*arguments, context_settings=CONTEXT, no_args_is_help=False, **settings)
        self.files = files

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """What click does, with better suggestions."""
        name, known = args[0], self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        forgotten = next((command for suffix, command in self.files.items() if name.endswith(suffix)), None)
        if forgotten is not None:
            meant: str | None = f"{forgotten} {name}"
        elif name in ("help", "version"):
            meant = f"--{name}"
        else:
            meant = nearest(name.lower(), known)
        raise click.UsageError(f"No such command {name!r}.{suggestion(meant)}", ctx)


def meant_flag(option: str, flags: Iterable[str]) -> str | None:
    """The flag that was probably meant by one that there is not, or None.

    Example:
        >>> flags = ["--workers", "--learning-rate", "--json"]
        >>> [meant_flag(option, flags) for option in ("--wokers", "--lr", "-n", "-json", "--cheese")]
        ['--workers', '--learning-rate', '--workers', '--json', None]
    """
    meant = nearest(option.strip("-"), [flag.removeprefix("--") for flag in flags])
    return meant and f"--{meant}"


def suggestion(meant: str | None) -> str:
    """The question that ends an error message, or nothing."""
    return "" if meant is None else f" Did you mean {meant!r}?"

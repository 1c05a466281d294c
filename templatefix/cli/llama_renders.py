"""The proof of a Jinja variant once more, with the prompts of a llama-server program, where one is at hand."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from templatefix.cli.inputs import chat_template_of
from templatefix.cli.output import CliError, progress_line

if TYPE_CHECKING:
    from templatefix.chat.jinja import JinjaChatTemplate
    from templatefix.rewrite.result import PatchResult
    from templatefix.servers.applied import Applied
    from templatefix.servers.targets import Target

PROGRAM = "llama-server"
_LONGEST = 160  # characters of a server's reason


@dataclass(frozen=True, slots=True)
class LlamaRenders:
    """What a program made of the variant's loops."""

    program: Path
    found: Applied

    def text(self) -> str:
        """A sentence for people."""
        found = self.found
        said = f"{found.prompts} prompts compared with those of {self.program.name}, all equal"
        if not found.prompts:
            said = f"no prompt was compared with {self.program.name}"
        if not found.refused:
            return said
        reason = found.reason if len(found.reason) <= _LONGEST else found.reason[:_LONGEST] + "…"
        return f"{said}; {found.refused} it refuses of the original as well: {' '.join(reason.split())}"

    def to_json(self) -> dict[str, Any]:
        """As `server_renders` in the JSON of `patch`."""
        return {"program": str(self.program), "equal": self.found.prompts, "refused": self.found.refused}


def program_of(given: str | None) -> Path | None:
    """The program asked for, else the one on the PATH, if any; raises CliError where the one asked for is not there."""
    found = shutil.which(os.path.expanduser(given or PROGRAM))
    if found is None and given is not None:
        raise CliError(f"there is no program {given}")
    return None if found is None else Path(found).absolute()


def compared(found: Target, result: PatchResult, program: Path | None) -> tuple[PatchResult, LlamaRenders | None]:
    """A variant with what the program makes of it; a variant that it renders otherwise is refused."""
    from templatefix.rewrite.family import Replacement

    if program is None or not result.changed or found.jinja is None or isinstance(result, Replacement):
        return result, None
    from templatefix.analysis.loops import chat_loops, core_loops, thinking_loop
    from templatefix.rewrite.jinja_patch import again
    from templatefix.rewrite.result import PatchResult, Refusal
    from templatefix.servers.applied import NotAsProved, check_applied

    original = cast("JinjaChatTemplate", chat_template_of(found))
    loops = [*(core_loops() if result.tools else ()), *chat_loops(), thinking_loop()]
    show = progress_line()
    show(f"comparing the prompts with those of {program.name}")
    try:
        made = check_applied(program, again(original, result.template), original, loops)
    except NotAsProved as error:
        refused = tuple([Refusal(code, str(error)) for code in result.applied or ("",)])
        text = result.original
        return PatchResult(text, text, False, refused=refused, placement=result.placement, tools=result.tools), None
    finally:
        show("")
    return result, LlamaRenders(program, made)
